//! Tests connections that are idle across a hand-over.

use std::io;
use std::thread;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use sekisho_testkit::client;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Builder;
use tokio_rustls::client::TlsStream;

use super::{HOST, Handed};
use crate::sandbox::{SOON, ca, until};

#[test]
fn ten_thousand_idle_connections_are_answered_after_a_hand_over() {
    raise_open_files();
    let handed = Handed::start("[server]\nidle_timeout = \"5m\"\n");
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    let https = handed.server.https;
    let mut parked = Vec::new();
    runtime.block_on(async {
        // Most of them resume a session, which costs less.
        let config = client::config(ca());
        for _ in 0..PARKED {
            let stream = client::connect(https, HOST, config.clone()).await;
            let mut stream = stream.expect("a connection");
            // The request would wait for the handshake's acknowledgement, 40 ms.
            let socket = stream.get_ref().0;
            socket.set_nodelay(true).expect("it is open");
            let answer = ask(&mut stream).await.expect("an answer");
            assert!(answer.contains("generation-1.example"), "{answer}");
            assert!(!is_last(&answer), "{answer}");
            parked.push(stream);
        }
    });
    handed.reload(2, "", "[server]\nidle_timeout = \"5m\"\n");
    thread::sleep(super::A_WHILE);
    runtime.block_on(async {
        for stream in &mut parked {
            // The process that took the connection answers, and asks to leave.
            let answer = ask(stream).await.expect("an answer");
            assert!(answer.contains("generation-1.example"), "{answer}");
            assert!(is_last(&answer), "{answer}");
            assert_eq!(stream.read(&mut [0]).await.expect("a clean end"), 0);
        }
    });
    until("the first process keeps the pid alone", SOON, || {
        let arguments = std::fs::read(format!("/proc/{}/cmdline", handed.server.pid()));
        String::from_utf8_lossy(&arguments.expect("it runs")).contains("keep-pid")
    });
}

pub(super) async fn ask(stream: &mut TlsStream<TcpStream>) -> io::Result<String> {
    let request = format!("GET / HTTP/1.1\r\nHost: {HOST}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    stream.flush().await?;
    let mut answer = Vec::new();
    loop {
        if stream.read_buf(&mut answer).await? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let text = String::from_utf8_lossy(&answer);
        let Some((head, body)) = text.split_once("\r\n\r\n") else {
            continue;
        };
        let length = head.lines().find_map(|line| {
            let (name, value) = line.split_once(':')?;
            let is_length = name.eq_ignore_ascii_case("content-length");
            is_length.then(|| value.trim().parse::<usize>().ok())?
        });
        if body.len() >= length.unwrap_or_default() {
            return Ok(text.into_owned());
        }
    }
}

/// Tells whether the server ends the connection after this answer.
fn is_last(answer: &str) -> bool {
    answer.to_ascii_lowercase().contains("connection: close")
}

fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised).expect("up to the hard limit");
}

const PARKED: usize = 10_000;
