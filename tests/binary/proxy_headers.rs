//! Tests `[listen] proxy` of the real binary.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};

use sekisho_testkit::client;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::runtime::Builder;

use crate::sandbox::{SOON, Sandbox, Server, ca, until};

const CLIENT: &str = "PROXY TCP4 192.0.2.1 198.51.100.2 49152 443\r\n";
/// Header of version 2 with the command LOCAL.
const LOCAL: &[u8] = b"\r\n\r\n\0\r\nQUIT\n\x20\0\0\0";

/// Starts a server for which peers in this network are proxies. All of the server's
/// own lines are logged.
fn serve(sandbox: &Sandbox, proxies: &str) -> Server {
    sandbox.configure("[log]\naccess = \"access.log\"\n");
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let proxy = format!("[listen]\nproxy = [\"{proxies}\"]");
    sandbox.write("sekisho.toml", &config.replace("[listen]", &proxy));
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("SEKISHO_LOG", "info,sekisho_server=debug");
    Server::start(command)
}

/// Fetches a page behind a header.
fn fetch(address: SocketAddr, header: &str) -> std::io::Result<String> {
    let fetch = async {
        let mut socket = tokio::net::TcpStream::connect(address).await?;
        socket.write_all(header.as_bytes()).await?;
        let mut stream = client::handshake(socket, "a.example", client::config(ca())).await?;
        let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
        stream.write_all(request).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await?;
        Ok(answer)
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.expect("a runtime").block_on(fetch)
}

/// Sends bytes and closes. Returns the answer.
fn send(address: SocketAddr, bytes: &[u8]) -> Vec<u8> {
    let mut socket = TcpStream::connect(address).expect("it listens");
    socket.write_all(bytes).expect("sent");
    socket.shutdown(Shutdown::Write).expect("closed");
    let mut answer = Vec::new();
    socket.read_to_end(&mut answer).expect("no reset");
    answer
}

#[test]
fn checks_of_a_proxy_leave_no_line() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "127.0.0.0/8");
    let before = server.log();
    for address in [server.https, server.http] {
        assert_eq!(send(address, b""), b"");
        assert_eq!(send(address, LOCAL), b"");
    }
    for result in ["closed", "local"] {
        let name = format!("sekisho_proxy_headers_total{{result=\"{result}\"}}");
        until("both are counted", SOON, || {
            server.metric(&name) == Some(2.0)
        });
    }
    let answer = fetch(server.https, CLIENT).expect("an answer");
    assert!(answer.contains("page of a"), "{answer}");
    let path = sandbox.path("access.log");
    let read = || fs::read_to_string(&path).unwrap_or_default();
    until("the request has its line", SOON, || !read().is_empty());
    let lines = read();
    assert_eq!(lines.lines().count(), 1, "{lines}");
    let line: Value = serde_json::from_str(&lines).expect("JSON");
    assert_eq!(line["client"], "192.0.2.1", "{line}");
    // A header that is malformed has a line, which comes after those of the checks.
    assert_eq!(send(server.https, b"PROXY x\r\n"), b"");
    let refused = "PROXY protocol header refused";
    until("its line", SOON, || server.log().contains(refused));
    let log = server.log();
    let new: Vec<&str> = log.lines().skip(before.lines().count()).collect();
    let expected = ["192.0.2.1:49152", refused];
    assert_eq!(new.len(), expected.len(), "{new:?}");
    for (line, text) in new.iter().zip(expected) {
        assert!(line.contains(text), "{new:?}");
    }
    server.stop();
}

#[test]
fn a_strangers_header_is_refused() {
    let sandbox = Sandbox::new();
    let server = serve(&sandbox, "192.0.2.7/32");
    let answer = fetch(server.https, CLIENT);
    assert!(answer.is_err(), "{answer:?}");
    let request = format!("{CLIENT}GET / HTTP/1.1\r\nHost: a.example\r\n\r\n");
    let answer = send(server.http, request.as_bytes());
    let answer = String::from_utf8_lossy(&answer);
    assert!(answer.starts_with("HTTP/1.1 400 "), "{answer}");
    let reached = server.metric("sekisho_handshakes_total{result=\"not_tls\"}");
    assert_eq!(reached, Some(1.0));
    // Without a header the stranger is a client.
    assert!(server.shows("a.example", "page of a"));
    server.stop();
}
