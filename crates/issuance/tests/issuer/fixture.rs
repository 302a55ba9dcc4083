//! Fixture of the tests: a CA, a catalog, servers that issue and one that answers
//! challenges.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Catalog, ChallengeKind, Challenges, Clock, Fence, HostName, HostPattern, HostRecord, Lineage,
    LineageName, Obtain as _, Obtained, SealedBytes, Sealer, Secret, StoredCredential, Tenant,
};
use sekisho_issuance::acme::{self, CaSettings, KeyKind};
use sekisho_issuance::admission;
use sekisho_issuance::issuer::{Issuer, OnDemand};
use sekisho_issuance::ledger::Ledger;
use sekisho_issuance::quota::{Charge, Share};
use sekisho_issuance::settings::{CaOptions, Settings};
use sekisho_testkit::Memory;
use sekisho_testkit::services::{Pebble, PebbleOptions};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::sync::watch;

/// A catalog, and a CA that validates at the challenges in it.
pub(crate) struct Fixture {
    pub(crate) pebble: Pebble,
    pub(crate) catalog: Arc<dyn Catalog>,
    pub(crate) sealer: Sealer,
    /// True while validations wait for their answers.
    pub(crate) held: watch::Sender<bool>,
    /// Time of the catalog, milliseconds: claims end by it.
    pub(crate) time: Arc<AtomicI64>,
}

impl Fixture {
    pub(crate) async fn start() -> Self {
        Self::with(PebbleOptions::default()).await
    }

    pub(crate) async fn with(options: PebbleOptions) -> Self {
        let time = Arc::new(AtomicI64::new(Clock::System.now_ms()));
        let catalog = Memory::new(Clock::Manual(Arc::clone(&time)));
        let catalog: Arc<dyn Catalog> = Arc::new(catalog);
        let sealer = open(&catalog).await;
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let challenges = Challenges::new(sealer.clone(), Clock::System);
        let held = watch::Sender::new(false);
        tokio::spawn(answer_all(listener, challenges, held.subscribe()));
        let pebble = Pebble::start(&PebbleOptions {
            http_port: options.http_port.or(Some(port)),
            ..options
        });
        Self {
            pebble,
            catalog,
            sealer,
            held,
            time,
        }
    }

    /// Starts one more server.
    pub(crate) async fn issuer(&self) -> Arc<Issuer> {
        self.issuer_with(|_| {}).await
    }

    pub(crate) async fn issuer_with(&self, change: impl FnOnce(&mut Settings)) -> Arc<Issuer> {
        let mut settings = self.settings();
        change(&mut settings);
        self.built(settings, Clock::System).await
    }

    /// Starts a server at another time, which the catalog has, too.
    pub(crate) async fn issuer_at(&self, clock: Clock) -> Arc<Issuer> {
        self.time.store(clock.now_ms(), Ordering::SeqCst);
        self.built(self.settings(), clock).await
    }

    pub(crate) async fn built(&self, settings: Settings, clock: Clock) -> Arc<Issuer> {
        let sealer = open(&self.catalog).await;
        // Answers expire by the time of who asks for them.
        let challenges = Arc::new(Challenges::new(sealer.clone(), clock.clone()));
        Arc::new(Issuer::new(settings, sealer, challenges, clock).unwrap())
    }

    pub(crate) fn settings(&self) -> Settings {
        Settings {
            cas: vec![CaOptions::new(CaSettings {
                name: "pebble".into(),
                directory: self.pebble.directory(),
                root: Some(self.pebble.root()),
                deadline: CaSettings::DEADLINE,
            })],
            contact: Vec::new(),
            agree: true,
            admission: admission::Settings::default(),
            orders: 64,
            key: KeyKind::P256,
            reuse_key: false,
            solvers: vec![acme::ChallengeType::Http01],
            dns: Vec::new(),
            served: None,
        }
    }

    /// Stores a host without a certificate.
    pub(crate) async fn host(&self, name: &str) -> HostRecord {
        let mut record = HostRecord::new(pattern(name));
        record.tenant = Tenant::parse("customer").unwrap();
        let put = Write::PutHost(record.clone(), Precondition::Any);
        self.sealer.write(vec![put]).await.unwrap();
        record
    }

    /// Stores a host, and visits it: it gets a certificate. Returns its lineage.
    pub(crate) async fn issued(&self, issuer: &Arc<Issuer>, name: &str) -> LineageName {
        let record = self.host(name).await;
        let obtained = visit(issuer, name, Some(&record)).await;
        assert!(matches!(obtained, Obtained::Stored), "{obtained:?}");
        LineageName::from(&pattern(name))
    }

    /// Makes a lineage due.
    pub(crate) async fn make_due(&self, name: &str) {
        let mut lineage = self.lineage(name).await.unwrap();
        lineage.due = Some(0);
        let put = Write::PutLineage(lineage, Fence::Any);
        self.sealer.write(vec![put]).await.unwrap();
    }

    /// Returns the credential of a host's lineage, as it is stored.
    pub(crate) async fn stored(&self, name: &str) -> StoredCredential<SealedBytes> {
        let id = self.lineage(name).await.unwrap().credential.unwrap();
        self.catalog.credentials(&[id]).await.unwrap().remove(0)
    }

    /// Visits a host at a server that dies with the runtime.
    pub(crate) async fn visit_doomed(&self, name: &'static str, record: &HostRecord) -> Runtime {
        Self::visit_by(self.issuer().await, name, record)
    }

    /// Visits a host at a server on a runtime of its own.
    pub(crate) fn visit_by(
        issuer: Arc<Issuer>,
        name: &'static str,
        record: &HostRecord,
    ) -> Runtime {
        let record = record.clone();
        let builder = &mut Builder::new_multi_thread();
        let runtime = builder.worker_threads(1).enable_all().build().unwrap();
        runtime.spawn(async move { visit(&issuer, name, Some(&record)).await });
        runtime
    }

    pub(crate) async fn record(&self, name: &str) -> Option<HostRecord> {
        self.catalog.hosts(&[pattern(name)]).await.unwrap().pop()
    }

    pub(crate) async fn lineage(&self, name: &str) -> Option<Lineage<Secret>> {
        let name = LineageName::from(&pattern(name));
        let found = self.catalog.lineages(&[name]).await.unwrap().pop()?;
        Some(self.sealer.open_lineage(found).await.unwrap())
    }

    /// Returns how many orders the CA was asked for.
    pub(crate) fn orders(&self) -> usize {
        self.pebble.orders()
    }

    /// Returns the time of the catalog, Unix seconds.
    pub(crate) fn now(&self) -> i64 {
        self.time.load(Ordering::SeqCst) / 1000
    }

    /// Lets all claims end.
    pub(crate) fn end_claims(&self) {
        self.time.fetch_add(61_000, Ordering::SeqCst);
    }
}

/// Visits a name for the first time, as the lookup does.
pub(crate) async fn visit(
    issuer: &Arc<Issuer>,
    name: &str,
    record: Option<&HostRecord>,
) -> Obtained {
    let demand = OnDemand::new(Arc::clone(issuer), Handle::current());
    let name = HostName::parse(name).unwrap();
    demand.obtain(&name, record).await
}

/// Returns the metrics of a server as Prometheus reads them.
pub(crate) fn metrics(issuer: &Issuer) -> String {
    let (mut registry, mut text) = (Registry::default(), String::new());
    issuer.register(&mut registry);
    encode(&mut text, &registry).unwrap();
    text
}

/// Takes what is left of a limit of a CA, at most `most`. Returns how much that was.
pub(crate) async fn take_left(ledger: &Ledger, ca: &str, charge: &Charge, most: u32) -> u32 {
    let charges = std::slice::from_ref(charge);
    let mut taken = 0;
    while taken < most {
        let done = ledger.take(ca, charges, Share::Whole).await;
        if done.unwrap().is_err() {
            break;
        }
        taken += 1;
    }
    taken
}

pub(crate) fn pattern(name: &str) -> HostPattern {
    HostPattern::parse(name).unwrap()
}

/// Waits for what happens within seconds.
pub(crate) async fn eventually(mut is_so: impl AsyncFnMut() -> bool) {
    let is_so = async {
        while !is_so().await {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    let late = "it did not happen within a minute";
    tokio::time::timeout(Duration::from_mins(1), is_so)
        .await
        .expect(late);
}

async fn open(catalog: &Arc<dyn Catalog>) -> Sealer {
    let ring = KeyRing::new(MasterKey::new(&[7; 32]));
    Sealer::create(Arc::clone(catalog), ring).await.unwrap()
}

/// Answers HTTP-01 as a server does that reads challenges from the catalog.
async fn answer_all(
    listener: TcpListener,
    challenges: Challenges,
    mut held: watch::Receiver<bool>,
) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let _ = held.wait_for(|held| !held).await;
        answer(stream, &challenges).await;
    }
}

async fn answer(mut stream: TcpStream, challenges: &Challenges) {
    let mut head = [0; 4096];
    let read = stream.read(&mut head).await.unwrap_or(0);
    let head = String::from_utf8_lossy(&head[..read]);
    let token = head.split(['/', ' ']).nth(4).unwrap_or_default();
    let found = challenges
        .answer(ChallengeKind::Http01, token)
        .await
        .unwrap();
    let answer = match &found {
        Some(text) => format!(
            "200 OK\r\ncontent-length: {}\r\n\r\n{}",
            text.as_str().len(),
            text.as_str()
        ),
        None => "404 Not Found\r\ncontent-length: 0\r\n\r\n".into(),
    };
    let answer = format!("HTTP/1.1 {answer}");
    let _ = stream.write_all(answer.as_bytes()).await;
}

/// Address at which nobody listens.
pub(crate) fn nobody() -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    listener.local_addr().unwrap()
}
