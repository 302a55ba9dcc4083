//! Tests that a peer can't flood the log, and that a full log can't stall the
//! server.

use std::io;

use rustix::process::Signal;
use sekisho_testkit::client;
use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::runtime::Builder;

use crate::sandbox::{SOON, Sandbox, Server, ca, until};

#[test]
fn frames_of_a_peer_are_no_log_lines() {
    let (_sandbox, server) = serve("info");
    flood(&server);
    assert!(server.shows("a.example", "page of a"));
    let log = server.log();
    let lines = log.lines().filter(|line| line.contains("h2")).count();
    assert_eq!(lines, 0, "{lines} lines");
    server.stop();
}

#[test]
fn an_unread_log_stalls_no_connection() {
    let (_sandbox, mut server) = serve("info,h2=warn");
    let lines = server.log_lines();
    let unread = lines.lock().expect("nobody panicked");
    until("lines are dropped", SOON * 3, || {
        flood(&server);
        server.metric("sekisho_log_lines_dropped_total") > Some(0.0)
    });
    assert!(server.shows("a.example", "page of a"));
    server.signal(Signal::TERM);
    until("the server ends", SOON, || server.has_ended().is_some());
    let status = server.has_ended().expect("it just did");
    assert!(status.success(), "{status}");
    drop(unread);
}

#[test]
fn an_upstream_that_is_gone_is_named_with_its_host_and_a_hint() {
    let gone = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = gone.local_addr().expect("an address");
    drop(gone);
    let sandbox = Sandbox::new();
    sandbox.allow(&["127.0.0.0/8"]);
    sandbox.import(&["a.example"]);
    let url = format!("http://{address}");
    sandbox.ok(&["host", "set", "a.example", "--upstream", &url]);
    let server = sandbox.serve();
    for _ in 0..3 {
        let answer = server.fetch("a.example").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 502 "), "{answer}");
    }
    let failed = || -> Vec<Value> {
        let lines = server.log_lines();
        let lines = lines.lock().expect("nobody panicked");
        let failed = |line: &&Value| {
            line["fields"]["message"]
                .to_string()
                .contains("upstream failed")
        };
        lines.iter().filter(failed).cloned().collect()
    };
    until("the line is there", SOON, || !failed().is_empty());
    // At most one in ten seconds.
    let lines = failed();
    assert_eq!(lines.len(), 1, "{lines:?}");
    let line = &lines[0];
    assert_eq!(line["level"], "WARN", "{line}");
    assert_eq!(line["fields"]["host"], "a.example", "{line}");
    assert_eq!(line["fields"]["upstream"], address.to_string(), "{line}");
    let failure = line["fields"]["failure"].to_string();
    assert!(failure.contains("Connection refused"), "{line}");
    let message = line["fields"]["message"].to_string();
    assert!(
        message.contains("got 502; see whether the server runs"),
        "{line}"
    );
}

fn serve(filter: &str) -> (Sandbox, Server) {
    let sandbox = Sandbox::new();
    sandbox.configure("[server]\nworkers = 1\n");
    sandbox.page("a.example", "page of a");
    sandbox.import(&["a.example"]);
    let mut command = sandbox.command(&["serve", "--log", "json"]);
    command.env("SEKISHO_LOG", filter);
    let server = Server::start(command);
    (sandbox, server)
}

/// Acknowledges PING frames that were never sent (RFC 9113, section 6.7).
fn flood(server: &Server) {
    const ACK: [u8; 17] = [0, 0, 8, 6, 1, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
    let mut config = client::config(ca());
    config.alpn_protocols = vec![b"h2".to_vec()];
    let sent = async {
        let mut stream = client::connect(server.https, "a.example", config).await?;
        stream
            .write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")
            .await?;
        stream.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await?;
        let frames = ACK.repeat(1000);
        for _ in 0..FRAMES / 1000 {
            stream.write_all(&frames).await?;
        }
        io::Result::Ok(())
    };
    let runtime = Builder::new_current_thread().enable_all().build();
    // The server may end the connection.
    let _ = runtime.expect("a runtime").block_on(sent);
}

const FRAMES: usize = 100_000;
