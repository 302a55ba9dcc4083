//! Tests lines of requests that did not end as they should, and of clients
//! behind a proxy.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use common::{Running, Scripted, Setup, host, start};
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http2::{self, SendRequest};
use hyper_util::rt::{TokioExecutor, TokioIo};
use sekisho_certs::Site;
use sekisho_server::access_log::{AccessLog, Format, Settings, Target};
use sekisho_server::network::Network;
use sekisho_testkit::{Key, TestCa, client};
use serde_json::Value;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// Server with an access log, of `a.example` with a folder of files, of `b.example`, and of
/// `c.example` with a password.
struct Fixture {
    ca: TestCa,
    folder: TempDir,
    log: Arc<AccessLog>,
    running: Running,
}

impl Fixture {
    fn new(mut setup: Setup) -> Self {
        let (ca, folder) = (TestCa::new(), tempfile::tempdir().unwrap());
        fs::write(folder.path().join("large"), vec![b'x'; LARGE]).unwrap();
        let pair = ca.issue(&["a.example", "b.example", "c.example"], Key::P256);
        let hosts = ["a.example", "b.example"].map(|name| {
            let mut found = host(name, &[(&pair, Key::P256)]);
            let json = serde_json::json!({ "root": folder.path() }).to_string();
            let json = json.into();
            found.record.site = Some(Site { format: 1, json });
            found
        });
        let mut staff = host("c.example", &[(&pair, Key::P256)]);
        staff.record.site = Some(Site {
            format: 3,
            json: STAFF.into(),
        });
        let hosts = hosts.into_iter().chain([staff]);
        let settings = Settings {
            target: Target::File(folder.path().join("access.log")),
            format: Format::Json,
        };
        let log = AccessLog::start(&settings).unwrap();
        setup.access_log = Some(Arc::clone(&log));
        Self {
            running: start(Scripted::new(hosts), &setup),
            ca,
            folder,
            log,
        }
    }

    /// Waits for the only line.
    async fn line(&self) -> Value {
        let path: PathBuf = self.folder.path().join("access.log");
        let line = async {
            loop {
                self.log.flush();
                let text = fs::read_to_string(&path).unwrap();
                if !text.is_empty() {
                    return serde_json::from_str(&text).expect("one line");
                }
                sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, line).await.expect("a line in time")
    }

    async fn http2(&self) -> SendRequest<Empty<Bytes>> {
        let mut config = client::config(&self.ca);
        config.alpn_protocols = vec![b"h2".to_vec()];
        let stream = client::connect(self.running.address, "a.example", config);
        let stream = TokioIo::new(stream.await.unwrap());
        let connecting = http2::handshake(TokioExecutor::new(), stream);
        let (sender, connection) = connecting.await.unwrap();
        tokio::spawn(connection);
        sender
    }
}

fn get(url: &str) -> http::Request<Empty<Bytes>> {
    http::Request::get(url).body(Empty::new()).unwrap()
}

#[tokio::test]
async fn a_line_has_the_user_whose_password_was_right() {
    for (pair, status, user) in [
        ("YW5uOnNlY3JldA==", 410, Value::from("ann")),
        ("YW5uOndyb25n", 401, Value::Null),
    ] {
        let fixture = Fixture::new(Setup::default());
        let mut sender = fixture.http2().await;
        let mut request = get("https://c.example/");
        let value = format!("Basic {pair}").parse().unwrap();
        request.headers_mut().insert("authorization", value);
        sender.send_request(request).await.unwrap();
        let line = fixture.line().await;
        assert_eq!((&line["status"], &line["user"]), (&status.into(), &user));
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_in_the_body_is_not_complete() {
    let fixture = Fixture::new(Setup::default());
    let mut sender = fixture.http2().await;
    let request = get("https://a.example/large");
    let mut answer = sender.send_request(request).await.unwrap();
    answer.frame().await.unwrap().unwrap();
    // Dropping the body resets the stream.
    drop(answer);
    let line = fixture.line().await;
    assert_eq!(
        (&line["status"], &line["complete"]),
        (&200.into(), &false.into())
    );
    assert_eq!(
        (&line["version"], &line["host"]),
        (&"HTTP/2.0".into(), &"a.example".into())
    );
    assert_eq!(line["lookup"], "loaded");
    assert!(
        (1..LARGE as u64).contains(&line["bytes"].as_u64().unwrap()),
        "{line}"
    );
}

#[tokio::test]
async fn a_client_that_leaves_before_the_answer_has_499() {
    let fixture = Fixture::new(Setup::default());
    let mut sender = fixture.http2().await;
    fixture.running.store.hold();
    let request = sender.send_request(get("https://b.example/large"));
    let request = tokio::spawn(request);
    let held = async {
        while !fixture.running.store.is_held() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, held)
        .await
        .expect("a look-up of b.example");
    request.abort();
    let line = fixture.line().await;
    assert_eq!(
        (&line["status"], &line["complete"]),
        (&499.into(), &false.into())
    );
    assert_eq!(
        (&line["host"], &line["tenant"]),
        (&"b.example".into(), &Value::Null)
    );
    assert_eq!(line["first_byte_ms"], Value::Null);
    fixture.running.store.unhold();
}

#[tokio::test]
async fn a_connection_that_is_closed_in_the_body_is_not_complete() {
    let fixture = Fixture::new(Setup::default());
    let config = client::config(&fixture.ca);
    let stream = client::connect(fixture.running.address, "a.example", config);
    let mut stream = stream.await.unwrap();
    stream
        .write_all(b"GET /large HTTP/1.1\r\nHost: a.example\r\n\r\n")
        .await
        .unwrap();
    stream.read_exact(&mut [0; 4096]).await.unwrap();
    drop(stream);
    let line = fixture.line().await;
    assert_eq!(
        (&line["status"], &line["complete"]),
        (&200.into(), &false.into())
    );
    assert!(line["bytes"].as_u64() < Some(LARGE as u64), "{line}");
}

#[tokio::test]
async fn the_client_is_the_one_that_the_proxy_names() {
    let mut setup = Setup::default();
    let networks = |text| std::iter::once(Network::parse(text).unwrap()).collect();
    setup.settings.proxies = networks("127.0.0.1");
    // The address in the header is the one that is trusted, or not.
    setup.settings.trusted = networks("192.0.2.0/24");
    for (proxied, client_is) in [
        ("192.0.2.1", "203.0.113.7"),
        ("198.51.100.1", "198.51.100.1"),
    ] {
        let fixture = Fixture::new(Setup {
            settings: setup.settings.clone(),
            ..Setup::default()
        });
        let mut socket = TcpStream::connect(fixture.running.address).await.unwrap();
        let header = format!("PROXY TCP4 {proxied} 192.0.2.9 49152 443\r\n");
        socket.write_all(header.as_bytes()).await.unwrap();
        let config = client::config(&fixture.ca);
        let mut stream = client::handshake(socket, "a.example", config)
            .await
            .unwrap();
        stream
            .write_all(
                b"GET /none HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\
                  X-Forwarded-For: 10.0.0.1, 203.0.113.7\r\n\r\n",
            )
            .await
            .unwrap();
        stream.read_to_end(&mut Vec::new()).await.unwrap();
        let line = fixture.line().await;
        assert_eq!(
            (&line["client"], &line["status"]),
            (&client_is.into(), &404.into())
        );
    }
}

/// A trusted proxy that hides its client tells nothing about it, on either port.
#[tokio::test]
async fn fields_behind_a_header_without_a_client_are_not_believed() {
    let mut setup = Setup::default();
    let networks = || std::iter::once(Network::parse("127.0.0.1").unwrap()).collect();
    setup.settings.proxies = networks();
    setup.settings.trusted = networks();
    let request = b"GET /none HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\
                    X-Forwarded-For: 203.0.113.7\r\nX-Request-Id: made-up\r\n\r\n";
    for is_https in [true, false] {
        let fixture = Fixture::new(Setup {
            settings: setup.settings.clone(),
            ..Setup::default()
        });
        let running = &fixture.running;
        let address = if is_https {
            running.address
        } else {
            running.http
        };
        let mut socket = TcpStream::connect(address).await.unwrap();
        socket.write_all(b"PROXY UNKNOWN\r\n").await.unwrap();
        if is_https {
            let config = client::config(&fixture.ca);
            let stream = client::handshake(socket, "a.example", config);
            let mut stream = stream.await.unwrap();
            stream.write_all(request).await.unwrap();
            stream.read_to_end(&mut Vec::new()).await.unwrap();
        } else {
            socket.write_all(request).await.unwrap();
            socket.read_to_end(&mut Vec::new()).await.unwrap();
        }
        let line = fixture.line().await;
        assert_eq!(line["client"], "127.0.0.1", "{line}");
        assert_ne!(line["id"], "made-up", "{line}");
    }
}

/// Bytes of a file that no buffer on the way takes whole.
const LARGE: usize = 64 << 20;
const PATIENCE: Duration = Duration::from_secs(10);

/// Site with the user ann, whose password is `secret`.
const STAFF: &str = r#"{"status": 410,
    "auth": {"users": {"ann": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#;
