use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use sekisho_certs::store::BoxFuture;
use sekisho_certs::{
    Answer, Cached, HostName, Lookup, LookupSettings, NeverObtain, Published, Store, StoreError,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;

use super::*;
use crate::config::TokenSource;
use crate::metrics::{HandshakeResult, LookupResult};

/// Knows no name; fails when it is told to.
#[derive(Debug, Default)]
struct Scripted(AtomicBool);

impl Store for Scripted {
    fn find<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, Result<Answer, StoreError>> {
        let fails = self.0.load(Ordering::SeqCst);
        Box::pin(async move {
            match fails {
                true => Err(StoreError::Unavailable("out".into())),
                false => Ok(Answer::Absent),
            }
        })
    }
}

struct Fixture {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    store: Arc<Scripted>,
    lookup: Arc<Lookup<()>>,
    draining: Arc<AtomicBool>,
    end: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<()>,
}

impl Fixture {
    async fn start(token: Option<Token>) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let store = Arc::new(Scripted::default());
        let settings = LookupSettings {
            memory: 1 << 20,
            fresh: Duration::from_secs(60),
            absent: Duration::from_secs(5),
        };
        let publish = |_: &_| {
            Ok(Published {
                value: (),
                weight: 0,
            })
        };
        let lookup = Lookup::new(store.clone(), &settings, Arc::new(NeverObtain), publish);
        let metrics = Arc::new(Metrics::new());
        let draining = Arc::new(AtomicBool::new(false));
        let (stats, drains) = (Arc::clone(&lookup), Arc::clone(&draining));
        let sources = Sources {
            metrics: Arc::clone(&metrics),
            lookup: Box::new(move || stats.stats()),
            level: None,
            warm: Some(Box::new(|| WarmStats {
                copies: 7,
                ..WarmStats::default()
            })),
            responder: Arc::new(Responder::new(16 << 20)),
            draining: Box::new(move || drains.load(Ordering::SeqCst)),
        };
        let (end, ended) = oneshot::channel();
        let admin = Admin::new(sources, token);
        let served = tokio::spawn(admin.serve(listener, async {
            let _ = ended.await;
        }));
        Self {
            address,
            metrics,
            store,
            lookup,
            draining,
            end,
            served,
        }
    }

    async fn ask(&self, head: &str) -> (u16, String) {
        ask(self.address, head).await
    }

    async fn get(&self, path: &str) -> (u16, String) {
        self.ask(&format!("GET {path} HTTP/1.1\r\nHost: localhost\r\n"))
            .await
    }

    async fn health(&self) -> serde_json::Value {
        let (status, answer) = self.get("/healthz").await;
        assert_eq!(status, 200);
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("content-type: application/json"), "{head}");
        serde_json::from_str(body).unwrap()
    }

    /// One scrape, each sample by its name and labels.
    async fn scrape(&self) -> HashMap<String, f64> {
        let (status, answer) = self.get("/metrics").await;
        assert_eq!(status, 200);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/openmetrics-text"), "{head}");
        samples(text)
    }

    async fn look_up(&self, name: &str) {
        let name = HostName::parse(name).unwrap();
        let Cached::Miss = self.lookup.cached(&name) else {
            panic!("{name} was not asked for yet");
        };
        self.lookup.load(&name).await;
    }
}

async fn ask(address: SocketAddr, head: &str) -> (u16, String) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("{head}Connection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    (status, answer)
}

/// Reads OpenMetrics text by its grammar: each sample belongs to the family
/// announced before it, and its suffix to that family's type.
fn samples(text: &str) -> HashMap<String, f64> {
    let mut samples = HashMap::new();
    let (mut family, mut kind) = ("", "");
    let body = text.strip_suffix("# EOF\n").expect("ends with EOF");
    for line in body.lines() {
        if let Some(rest) = line.strip_prefix("# TYPE ") {
            (family, kind) = rest.split_once(' ').unwrap();
            continue;
        }
        if line.starts_with("# HELP ") {
            continue;
        }
        let (name, value) = line.rsplit_once(' ').unwrap();
        let bare = name.split('{').next().unwrap();
        let suffix = bare
            .strip_prefix(family)
            .unwrap_or_else(|| panic!("{line} in {family}"));
        let suffixes: &[&str] = match kind {
            "counter" => &["_total"],
            "gauge" => &[""],
            "histogram" => &["_sum", "_count", "_bucket"],
            other => panic!("type {other}"),
        };
        assert!(suffixes.contains(&suffix), "{line}");
        let value = value.parse().unwrap();
        assert!(
            samples.insert(name.to_owned(), value).is_none(),
            "{name} twice"
        );
    }
    samples
}

#[tokio::test]
async fn every_figure_is_told() {
    let fixture = Fixture::start(None).await;
    let metrics = &fixture.metrics;
    for (n, result) in HandshakeResult::ALL.into_iter().enumerate() {
        for _ in 0..=n {
            metrics.handshake(result);
        }
    }
    for (n, result) in LookupResult::ALL.into_iter().enumerate() {
        for _ in 0..=n {
            metrics.lookup(result);
        }
    }
    for status in [100, 200, 204, 308, 404, 421, 500, 999] {
        metrics.request(StatusCode::from_u16(status).unwrap());
    }
    metrics.expired_served();
    for _ in 0..3 {
        metrics.connection_opened();
    }
    metrics.connection_closed();
    fixture.look_up("a.example").await;
    fixture.store.0.store(true, Ordering::SeqCst);
    fixture.look_up("b.example").await;

    let got = fixture.scrape().await;
    for (n, result) in HandshakeResult::ALL.into_iter().enumerate() {
        let name = format!("sekisho_handshakes_total{{result=\"{}\"}}", result.as_str());
        assert_eq!(got[&name], (n + 1) as f64, "{name}");
    }
    for (n, result) in LookupResult::ALL.into_iter().enumerate() {
        let name = format!("sekisho_lookups_total{{outcome=\"{}\"}}", result.as_str());
        assert_eq!(got[&name], (n + 1) as f64, "{name}");
    }
    for (name, value) in [
        ("sekisho_requests_total{status=\"1xx\"}", 1.0),
        ("sekisho_requests_total{status=\"2xx\"}", 2.0),
        ("sekisho_requests_total{status=\"3xx\"}", 1.0),
        ("sekisho_requests_total{status=\"4xx\"}", 2.0),
        ("sekisho_requests_total{status=\"5xx\"}", 2.0),
        ("sekisho_expired_served_total", 1.0),
        ("sekisho_connections_accepted_total", 3.0),
        ("sekisho_connections_open", 2.0),
        ("sekisho_cache_records", 0.0),
        ("sekisho_cache_notes", 1.0),
        ("sekisho_loads_total{outcome=\"found\"}", 0.0),
        ("sekisho_loads_total{outcome=\"absent\"}", 1.0),
        ("sekisho_loads_total{outcome=\"failed\"}", 1.0),
        ("sekisho_loads_in_flight", 0.0),
        ("sekisho_store_errors_total", 1.0),
        ("sekisho_store_available", 0.0),
        ("sekisho_store_call_seconds_count", 2.0),
        ("sekisho_store_call_seconds_bucket{le=\"+Inf\"}", 2.0),
        ("sekisho_log_position", 0.0),
        ("sekisho_feed_state{state=\"none\"}", 1.0),
        ("sekisho_feed_state{state=\"healthy\"}", 0.0),
        ("sekisho_feed_state{state=\"broken\"}", 0.0),
        ("sekisho_warm_copies", 7.0),
        ("sekisho_warm_answers_total", 0.0),
        ("sekisho_file_cache_entries", 0.0),
        ("sekisho_file_cache_hits_total", 0.0),
        ("sekisho_build_info{version=\"0.1.0\"}", 1.0),
    ] {
        assert_eq!(got.get(name), Some(&value), "{name}");
    }
    for name in [
        "sekisho_cache_bytes",
        "sekisho_cache_capacity_bytes",
        "sekisho_file_cache_capacity_bytes",
        "process_resident_memory_bytes",
        "process_cpu_seconds_total",
        "process_open_fds",
        "process_max_fds",
        "process_start_time_seconds",
    ] {
        assert!(got[name] > 0.0, "{name}");
    }
    assert!(!got.contains_key("sekisho_start_up_seconds"));
    metrics.listening(Duration::from_millis(12));
    assert_eq!(fixture.scrape().await["sekisho_start_up_seconds"], 0.012);
}

#[tokio::test]
async fn ready_from_the_first_listen_until_draining() {
    let fixture = Fixture::start(None).await;
    let (status, answer) = fixture.get("/readyz").await;
    assert!(status == 503 && answer.ends_with("starting\n"), "{answer}");
    fixture.metrics.listening(Duration::from_millis(1));
    assert_eq!(fixture.get("/readyz").await.0, 200);
    fixture.store.0.store(true, Ordering::SeqCst);
    fixture.look_up("a.example").await;
    assert_eq!(
        fixture.get("/readyz").await.0,
        200,
        "whatever the store does"
    );
    fixture.draining.store(true, Ordering::SeqCst);
    let (status, answer) = fixture.get("/readyz").await;
    assert!(status == 503 && answer.ends_with("draining\n"), "{answer}");
    assert_eq!(fixture.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn health_tells_of_the_store() {
    let fixture = Fixture::start(None).await;
    let health = fixture.health().await;
    assert_eq!(health["state"], "starting");
    assert_eq!(health["store"]["state"], "not asked yet");
    assert_eq!(health["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(health["start_up_seconds"], serde_json::Value::Null);
    fixture.metrics.listening(Duration::from_millis(12));
    fixture.look_up("a.example").await;
    let health = fixture.health().await;
    assert_eq!(health["state"], "serving");
    assert_eq!(health["start_up_seconds"], 0.012);
    assert_eq!(health["store"]["state"], "available");
    fixture.store.0.store(true, Ordering::SeqCst);
    fixture.look_up("b.example").await;
    let health = fixture.health().await;
    assert_eq!(health["store"]["state"], "unavailable");
    assert_eq!(health["store"]["errors"], 1);
    assert_eq!(health["feed"]["state"], "none");
    assert_eq!(health["feed"]["position"], 0);
    assert!(health["uptime_seconds"].is_u64());
}

#[tokio::test]
async fn other_paths_and_methods_are_refused() {
    let fixture = Fixture::start(None).await;
    fixture.metrics.listening(Duration::from_millis(1));
    for path in [
        "/",
        "/metrics/",
        "/Metrics",
        "/metrics/../healthz",
        "//metrics",
    ] {
        assert_eq!(fixture.get(path).await.0, 404, "{path}");
    }
    assert_eq!(fixture.get("/metrics?name=x").await.0, 200);
    for path in ["/healthz", "/readyz", "/metrics"] {
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let head = format!("{method} {path} HTTP/1.1\r\nHost: localhost\r\n");
            let (status, answer) = fixture.ask(&head).await;
            assert_eq!(status, 405, "{method} {path}");
            assert!(answer.contains("allow: GET, HEAD"), "{answer}");
        }
        let head = format!("HEAD {path} HTTP/1.1\r\nHost: localhost\r\n");
        let (status, answer) = fixture.ask(&head).await;
        assert_eq!(status, 200);
        assert!(answer.ends_with("\r\n\r\n"), "{answer}");
    }
}

#[tokio::test]
async fn without_a_token_only_loopback_names_are_answered() {
    let fixture = Fixture::start(None).await;
    for (host, expected) in [
        ("localhost", 200),
        ("LOCALHOST:9443", 200),
        ("127.0.0.1", 200),
        ("127.0.0.1:9443", 200),
        ("127.9.9.9", 200),
        ("[::1]:9443", 200),
        ("evil.example", 403),
        ("evil.example:9443", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("192.0.2.1", 403),
        ("0.0.0.0", 403),
        ("127.0.0.1@evil.example", 403),
        ("evil.example@127.0.0.1", 403),
        ("", 403),
    ] {
        let head = format!("GET /healthz HTTP/1.1\r\nHost: {host}\r\n");
        assert_eq!(fixture.ask(&head).await.0, expected, "{host}");
    }
    let both = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n";
    assert_ne!(fixture.ask(both).await.0, 200);
    let absolute = "GET http://evil.example/healthz HTTP/1.1\r\nHost: localhost\r\n";
    assert_eq!(fixture.ask(absolute).await.0, 403);
    assert_eq!(fixture.ask("GET /healthz HTTP/1.0\r\n").await.0, 200);
}

#[tokio::test]
async fn with_a_token_nothing_is_answered_without_it() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("token");
    std::fs::write(&file, "0123456789abcdef\n").unwrap();
    let token = Token::load(&TokenSource::File(file)).unwrap();
    let fixture = Fixture::start(Some(token)).await;
    for (header, expected) in [
        ("", 401),
        ("Authorization: Bearer 0123456789abcdef\r\n", 200),
        ("authorization: bearer  0123456789abcdef \r\n", 200),
        ("Authorization: Bearer 0123456789abcdeF\r\n", 401),
        ("Authorization: Bearer 0123456789abcdef0\r\n", 401),
        ("Authorization: Bearer\r\n", 401),
        ("Authorization: 0123456789abcdef\r\n", 401),
        ("Authorization: Basic 0123456789abcdef\r\n", 401),
    ] {
        for path in ["/healthz", "/metrics"] {
            let head = format!("GET {path} HTTP/1.1\r\nHost: admin.example\r\n{header}");
            let (status, answer) = fixture.ask(&head).await;
            assert_eq!(status, expected, "{path} {header}");
            assert_eq!(answer.contains("www-authenticate: Bearer"), expected == 401);
            assert!(expected == 200 || !answer.contains("version"));
        }
    }
    let unknown = fixture.ask("GET /secret HTTP/1.1\r\nHost: a\r\n").await;
    assert_eq!(unknown.0, 401, "the paths are not told either");
}

#[tokio::test]
async fn connections_are_bounded_and_idle_ones_end() {
    let fixture = Fixture::start(None).await;
    let mut idle = Vec::new();
    for _ in 0..CONNECTIONS {
        idle.push(TcpStream::connect(fixture.address).await.unwrap());
    }
    // Each has its turn once it was answered, and then holds its place.
    for socket in &mut idle {
        let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
        socket.write_all(request).await.unwrap();
        assert!(socket.read(&mut [0; 4096]).await.unwrap() > 0);
    }
    let address = fixture.address;
    let waiting = tokio::spawn(ask(address, "GET /healthz HTTP/1.1\r\nHost: localhost\r\n"));
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert!(!waiting.is_finished());
    drop(idle.pop());
    assert_eq!(waiting.await.unwrap().0, 200);

    tokio::time::pause();
    let mut rest = Vec::new();
    // The timer ends it; nothing else would.
    idle.pop().unwrap().read_to_end(&mut rest).await.unwrap();
}

#[tokio::test]
async fn strangers_hold_no_place() {
    let fixture = Fixture::start(None).await;
    let mut silent = TcpStream::connect(fixture.address).await.unwrap();
    let mut refused = TcpStream::connect(fixture.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    refused.write_all(request).await.unwrap();
    let mut answer = String::new();
    // No time passes here that a timer could end it by.
    refused.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 403"), "{answer}");
    assert!(answer.contains("connection: close"), "{answer}");

    let mut known = TcpStream::connect(fixture.address).await.unwrap();
    let request = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n";
    known.write_all(request).await.unwrap();
    assert!(known.read(&mut [0; 4096]).await.unwrap() > 0);
    tokio::time::pause();
    let begun = Instant::now();
    silent.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(begun.elapsed() <= STRANGER_LIFE + Duration::from_secs(1));
    known.read_to_end(&mut Vec::new()).await.unwrap();
    assert!(begun.elapsed() > STRANGER_LIFE * 2, "{:?}", begun.elapsed());
}

#[tokio::test]
async fn the_listener_closes_when_it_is_told_to() {
    let fixture = Fixture::start(None).await;
    let mut open = TcpStream::connect(fixture.address).await.unwrap();
    assert_eq!(fixture.get("/healthz").await.0, 200);
    fixture.end.send(()).unwrap();
    fixture.served.await.unwrap();
    assert_eq!(open.read(&mut [0; 1]).await.unwrap_or(0), 0);
    assert!(TcpStream::connect(fixture.address).await.is_err());
}
