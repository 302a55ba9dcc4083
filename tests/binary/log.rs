//! Tests that a peer can't flood the log, and that a full log can't stall the
//! server.

use std::io;

use rustix::process::Signal;
use sekisho_testkit::client;
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
