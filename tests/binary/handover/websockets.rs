//! Tests a WebSocket across two hand-overs, which the third one cuts.

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::thread;
use std::time::Duration;

use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;
use tokio_rustls::client::TlsStream;

use super::Handed;
use crate::sandbox::{SOON, ca, until};

#[test]
fn a_websocket_outlives_two_hand_overs_and_the_third_counts_it() {
    let drain = "[server]\ndrain_timeout = \"5s\"\n";
    let handed = Handed::start(drain);
    handed.sandbox.import(&[APP]);
    let upstream = format!("http://{}", echo());
    handed
        .sandbox
        .ok(&["host", "set", APP, "--upstream", &upstream]);
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let mut sockets = vec![open(&runtime, handed.server.https)];
    for generation in 2..4 {
        handed.reload(generation, "", drain);
        thread::sleep(Duration::from_millis(1500));
        for socket in &mut sockets {
            let echoed = runtime.block_on(exchange(socket));
            assert!(echoed.is_ok(), "{echoed:?}: {}", handed.server.log());
        }
        // Each process must have a connection, or it ends.
        sockets.push(open(&runtime, handed.server.https));
    }
    handed.reload(4, "", drain);
    let mut socket = sockets.remove(0);
    let end = async { timeout(SOON, socket.read(&mut [0])).await };
    let ended = runtime.block_on(end).expect("it is cut in time");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
    for socket in &mut sockets {
        let echoed = runtime.block_on(exchange(socket));
        assert!(echoed.is_ok(), "{echoed:?}: {}", handed.server.log());
    }
    until("the count", SOON, || {
        handed
            .server
            .metric("sekisho_handover_connections_cut_total")
            == Some(1.0)
    });
    let status = handed.sandbox.json(&["status", "--json"]);
    assert_eq!(status["handovers"]["connections_cut"], 1, "{status}");
}

fn open(runtime: &Runtime, https: SocketAddr) -> TlsStream<TcpStream> {
    let opened = runtime.block_on(async {
        let mut stream = client::connect(https, APP, client::config(ca())).await?;
        let request = format!(
            "GET /echo HTTP/1.1\r\nHost: {APP}\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await?;
        let mut head = Vec::new();
        while !head.ends_with(b"\r\n\r\n") {
            head.push(stream.read_u8().await?);
        }
        match head.starts_with(b"HTTP/1.1 101 ") {
            true => Ok(stream),
            false => Err(io::Error::other(String::from_utf8_lossy(&head))),
        }
    });
    opened.expect("a WebSocket")
}

async fn exchange(stream: &mut TlsStream<TcpStream>) -> io::Result<()> {
    stream.write_all(b"\x82\x84\0\0\0\0echo").await?;
    let mut back = [0; 10];
    let read = timeout(SOON, stream.read_exact(&mut back)).await;
    read.map_err(|_| io::ErrorKind::TimedOut)??;
    assert_eq!(&back, b"\x82\x84\0\0\0\0echo");
    Ok(())
}

/// Starts an upstream that takes each request for a WebSocket and echoes its bytes, as long
/// as the tests run.
fn echo() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("it is bound");
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // The client judges how a connection ends.
            thread::spawn(move || answer(stream).ok());
        }
    });
    address
}

fn answer(mut stream: std::net::TcpStream) -> io::Result<()> {
    use std::io::{Read, Write};
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut buffer[..1])?;
        head.push(buffer[0]);
    }
    stream.write_all(
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    )?;
    loop {
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            read => stream.write_all(&buffer[..read])?,
        }
    }
}

const APP: &str = "app.example";
