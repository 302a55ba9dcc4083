//! Access log's lines of connections that left HTTP.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;

use hyper_util::rt::TokioIo;
use sekisho_server::access_log::{AccessLog, Format, Settings, Target};
use serde_json::Value;
use tempfile::TempDir;

use crate::common::{LIMITS, Setup};
use crate::upgrades::{accept, connect};
use crate::world::{HOST, Upstream, Wire, World, patiently};

/// Server with an access log.
struct Logged {
    world: World,
    log: Arc<AccessLog>,
    folder: TempDir,
}

impl Logged {
    fn new(site: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let target = Target::File(folder.path().join("access.log"));
        let format = Format::Json;
        let log = AccessLog::start(&Settings { target, format }).unwrap();
        let mut setup = Setup::limits(LIMITS);
        setup.access_log = Some(Arc::clone(&log));
        let world = World::of_setup(setup, &[(HOST, site)]);
        Self { world, log, folder }
    }

    fn text(&self) -> String {
        self.log.flush();
        let path: PathBuf = self.folder.path().join("access.log");
        fs::read_to_string(path).unwrap()
    }

    /// Waits for the only line.
    async fn line(&self) -> Value {
        let line = async {
            loop {
                let text = self.text();
                if !text.is_empty() {
                    return serde_json::from_str(&text).expect("one line");
                }
                tokio::task::yield_now().await;
            }
        };
        patiently(line).await
    }
}

const SWITCH: &str =
    "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: echo\r\n\r\n";

/// Leaves HTTP over HTTP/1.1, behind a request with these fields.
async fn upgraded(
    logged: &Logged,
    upstream: &Upstream,
) -> (
    Wire<tokio_rustls::client::TlsStream<tokio::net::TcpStream>>,
    Wire<tokio::net::TcpStream>,
) {
    let mut client = logged.world.connect().await;
    client
        .send(format!(
            "GET /echo HTTP/1.1\r\nHost: {HOST}\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
        ))
        .await;
    let mut server = upstream.accept().await;
    server.head().await;
    server.send(SWITCH).await;
    client.head().await;
    client.send("four").await;
    assert_eq!(server.exact(4).await, b"four");
    server.send("sixsix").await;
    assert_eq!(client.exact(6).await, b"sixsix");
    (client, server)
}

#[tokio::test]
async fn an_upgrade_has_its_line_at_the_end() {
    let upstream = Upstream::bind().await;
    let logged = Logged::new(&upstream.site());
    let (mut client, server) = upgraded(&logged, &upstream).await;
    assert_eq!(logged.text(), "");
    drop(server);
    client.shutdown().await;
    client.closed().await;
    let line = logged.line().await;
    for (key, value) in [
        ("status", Value::from(101)),
        ("target", "/echo".into()),
        ("bytes", 6.into()),
        ("bytes_in", 4.into()),
        ("complete", true.into()),
        ("upstream", upstream.address().into()),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
    let (first, total) = (&line["first_byte_ms"], &line["total_ms"]);
    assert!(first.as_f64().unwrap() < total.as_f64().unwrap(), "{line}");
}

#[tokio::test]
async fn an_upgrade_that_a_drain_ends_is_not_complete() {
    let upstream = Upstream::bind().await;
    let logged = Logged::new(&upstream.site());
    let (_client, _server) = upgraded(&logged, &upstream).await;
    logged.world.running.shutdown.drain();
    let line = logged.line().await;
    assert_eq!((&line["bytes"], &line["bytes_in"]), (&6.into(), &4.into()));
    assert_eq!(line["complete"], false);
}

#[tokio::test]
async fn a_websocket_over_http2_has_its_line_at_the_end() {
    let upstream = Upstream::bind().await;
    let logged = Logged::new(&upstream.site());
    let mut client = logged.world.http2().await;
    let answer = client.send_request(connect());
    let mut server = upstream.accept().await;
    let head = server.head().await;
    server
        .send(format!(
            "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
             Sec-WebSocket-Accept: {}\r\n\r\n",
            accept(&head)
        ))
        .await;
    let answer = patiently(answer).await.unwrap();
    let upgraded = patiently(hyper::upgrade::on(answer)).await.unwrap();
    let mut stream = Wire::new(TokioIo::new(upgraded));
    stream.send("four").await;
    assert_eq!(server.exact(4).await, b"four");
    assert_eq!(logged.text(), "");
    server.send("sixsix").await;
    drop(server);
    assert_eq!(stream.rest().await, b"sixsix");
    stream.shutdown().await;
    let line = logged.line().await;
    for (key, value) in [
        ("status", Value::from(200)),
        ("method", "CONNECT".into()),
        ("version", "HTTP/2.0".into()),
        ("bytes", 6.into()),
        ("bytes_in", 4.into()),
        ("complete", true.into()),
    ] {
        assert_eq!(line[key], value, "{key}: {line}");
    }
}
