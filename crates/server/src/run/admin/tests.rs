mod access;
mod metrics;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};

use sekisho_certs::{Cached, HostName, Lookup, LookupSettings, NeverObtain, Published};
use sekisho_testkit::Scripted;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::oneshot;

use super::*;
use crate::http::respond::Responder;
use crate::observe::metrics::register_process;

struct Fixture {
    address: SocketAddr,
    metrics: Arc<Metrics>,
    store: Arc<Scripted>,
    lookup: Arc<Lookup<()>>,
    draining: Arc<AtomicBool>,
    end: oneshot::Sender<()>,
    served: tokio::task::JoinHandle<Listener>,
}

impl Fixture {
    async fn start(token: Option<Token>) -> Self {
        let any = Address::Tcp(([127, 0, 0, 1], 0).into());
        let listener = Listener::bind(&any).await.unwrap();
        let Ok(Address::Tcp(address)) = listener.address() else {
            panic!("it has a TCP address");
        };
        let store = Arc::new(Scripted::new([]));
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
        let metrics = Arc::new(Metrics::default());
        let draining = Arc::new(AtomicBool::new(false));
        let (stats, drains) = (Arc::clone(&lookup), Arc::clone(&draining));
        let mut registry = Registry::default();
        let own = registry.sub_registry_with_prefix("sekisho");
        metrics.register(own);
        lookup.register(own);
        Arc::new(Responder::new(16 << 20, Arc::default())).register(own);
        register_process(registry.sub_registry_with_prefix("process"));
        let sources = Sources {
            metrics: Arc::clone(&metrics),
            lookup_stats: Box::new(move || stats.stats()),
            draining: Box::new(move || drains.load(Ordering::SeqCst)),
            registry,
            sites_digest: "digest".into(),
            status: Box::new(|audience| {
                let names = audience == Audience::Operator;
                Box::pin(async move { serde_json::json!({ "names": names }) })
            }),
            control: Box::new(|control| Box::pin(async move { Ok(format!("{control:?} done")) })),
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

    /// Scrapes once; returns each sample by its name and labels.
    async fn scrape(&self) -> HashMap<String, f64> {
        let asking = "Accept: application/openmetrics-text;version=1.0.0,text/plain;q=0.5\r\n";
        let (status, answer) = self.ask(&format!("{METRICS}{asking}")).await;
        assert_eq!(status, 200);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("application/openmetrics-text"), "{head}");
        metrics::samples(text)
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

#[tokio::test]
async fn ready_from_the_first_listen_until_draining() {
    let fixture = Fixture::start(None).await;
    let (status, answer) = fixture.get("/readyz").await;
    assert!(status == 503 && answer.ends_with("starting\n"), "{answer}");
    fixture.metrics.listening(Duration::from_millis(1));
    assert_eq!(fixture.get("/readyz").await.0, 200);
    fixture.store.fail(true);
    fixture.look_up("a.example").await;
    assert_eq!(
        fixture.get("/readyz").await.0,
        200,
        "a failing store changes nothing"
    );
    fixture.draining.store(true, Ordering::SeqCst);
    let (status, answer) = fixture.get("/readyz").await;
    assert!(status == 503 && answer.ends_with("draining\n"), "{answer}");
    assert_eq!(fixture.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn health_reports_the_store() {
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
    fixture.store.fail(true);
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

const METRICS: &str = "GET /metrics HTTP/1.1\r\nHost: localhost\r\n";

/// A reader that does not ask for OpenMetrics, as curl, finds help for each sample.
#[tokio::test]
async fn a_plain_reader_gets_the_format_of_prometheus() {
    let fixture = Fixture::start(None).await;
    for accept in ["", "Accept: text/plain\r\n", "Accept: */*\r\n"] {
        let (status, answer) = fixture.ask(&format!("{METRICS}{accept}")).await;
        assert_eq!(status, 200);
        let (head, text) = answer.split_once("\r\n\r\n").unwrap();
        assert!(
            head.contains("content-type: text/plain; version=0.0.4"),
            "{head}"
        );
        assert!(!text.contains("# EOF"), "{text}");
        let samples = text.lines().filter(|line| !line.starts_with('#'));
        let names: Vec<_> = samples
            .filter_map(|line| line.split(['{', ' ']).next())
            .collect();
        assert!(names.contains(&"sekisho_handshakes_total"), "{text}");
        for name in names.iter().filter(|name| name.ends_with("_total")) {
            assert!(text.contains(&format!("# HELP {name} ")), "{name}");
            assert!(text.contains(&format!("# TYPE {name} counter\n")), "{name}");
        }
    }
}
