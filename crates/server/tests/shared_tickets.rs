//! Tests ticket keys in a PostgreSQL that servers share.

#![allow(clippy::unwrap_used)]

mod common;

use sekisho_certs::store::DocumentId;
use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use common::{Running, Scripted, Setup, host, resuming, start};
use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer};
use sekisho_certs::{Clock, DocumentEvent};
use sekisho_server::tickets::{Keeper, PERIOD, Ring, Source};
use sekisho_stores::postgres::{Mode, Options, Postgres, Url};
use sekisho_testkit::{Key, Pair, TestCa, services};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::runtime::Handle;
use tokio::sync::broadcast;
use tokio_rustls::TlsConnector;

/// State that the servers share, and their common clock.
struct World {
    ca: TestCa,
    pair: Pair,
    url: String,
    now: Arc<AtomicI64>,
}

/// Server with its own connections to PostgreSQL.
struct Member {
    running: Running,
    keeper: Keeper,
    sealer: Sealer,
}

impl World {
    fn new() -> Self {
        let ca = TestCa::new();
        Self {
            pair: ca.issue(&["a.example"], Key::P256),
            ca,
            url: services::Postgres::shared().database(),
            now: Arc::new(AtomicI64::new(1000 * PERIOD * 1000)),
        }
    }

    /// Returns a member that has refreshed its keys once.
    async fn member(&self) -> Member {
        let url = Url::parse(&self.url, Path::new("/")).unwrap();
        let options = Options {
            mode: Mode::Create,
            ..Options::default()
        };
        let store = Postgres::new(&url, &options, &Handle::current());
        let master = KeyRing::new(MasterKey::new(&[7; 32]));
        let store = Arc::new(store.unwrap());
        let sealer = Sealer::create(store, master).await.unwrap();
        let ring = Arc::new(Ring::random());
        let events = broadcast::Sender::<DocumentEvent>::new(1).subscribe();
        let source = Source::Catalog(sealer.clone(), events);
        let clock = Clock::Manual(Arc::clone(&self.now));
        let mut keeper = Keeper::new(source, Arc::clone(&ring), clock);
        keeper.refresh().await.unwrap();
        let hosts = Scripted::new([host("a.example", &[(&self.pair, Key::P256)])]);
        let setup = Setup {
            ring,
            ..Setup::default()
        };
        Member {
            running: start(hosts, &setup),
            keeper,
            sealer,
        }
    }

    fn a_period_passes(&self) {
        self.now.fetch_add(PERIOD * 1000, Ordering::SeqCst);
    }
}

async fn handshake(member: &Member, config: &Arc<ClientConfig>) -> HandshakeKind {
    let socket = TcpStream::connect(member.running.address).await.unwrap();
    let name = "a.example".try_into().unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let mut stream = connector.connect(name, socket).await.unwrap();
    let kind = stream.get_ref().1.handshake_kind().unwrap();
    // The server sends the tickets with the answer.
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    stream.write_all(request).await.unwrap();
    stream.read_to_end(&mut Vec::new()).await.unwrap();
    kind
}

/// Servers rotate at their own times: one is early, the others late.
#[tokio::test]
async fn tickets_open_on_all_servers_for_one_period_longer() {
    let world = World::new();
    let mut members = [
        world.member().await,
        world.member().await,
        world.member().await,
    ];
    for tls12 in [true, false] {
        // One client per server, each with a session of the first server.
        let connect = async |member: &Member| {
            let config = resuming(&world.ca, tls12);
            assert_eq!(handshake(member, &config).await, HandshakeKind::Full);
            config
        };
        let mut early = Vec::new();
        let mut late = Vec::new();
        for _ in &members {
            early.push(connect(&members[0]).await);
            late.push(connect(&members[0]).await);
        }
        world.a_period_passes();
        members[0].keeper.refresh().await.unwrap();
        for (member, config) in members.iter().zip(&early) {
            let kind = handshake(member, config).await;
            assert_eq!(kind, HandshakeKind::Resumed, "old, tls12: {tls12}");
        }
        // The early server seals under the next key already.
        let next = connect(&members[0]).await;
        for member in &members[1..] {
            let kind = handshake(member, &next).await;
            assert_eq!(kind, HandshakeKind::Resumed, "new, tls12: {tls12}");
        }
        world.a_period_passes();
        for (member, config) in members.iter_mut().zip(&late) {
            member.keeper.refresh().await.unwrap();
            let kind = handshake(member, config).await;
            assert_eq!(kind, HandshakeKind::Full, "too old, tls12: {tls12}");
        }
    }
}

#[tokio::test]
async fn ticket_keys_lie_sealed_in_the_database() {
    let world = World::new();
    let member = world.member().await;
    let document = member
        .sealer
        .document(&DocumentId::new("ticket-keys", "ring"))
        .await;
    let document = document.unwrap().expect("it was made");
    let keys = document.bytes;
    let rest = world.url.rsplit('/').next().unwrap();
    let name = rest.split('?').next().unwrap();
    let dump = services::Postgres::shared().dump(name);
    assert!(dump.contains("ticket-keys"));
    // The document has the format, then start, name and secret of each key.
    for key in keys.expose()[1..].chunks_exact(8 + 16 + 32) {
        for piece in key[8 + 16..].chunks(16) {
            let mut digits = String::new();
            piece
                .iter()
                .for_each(|byte| write!(digits, "{byte:02x}").unwrap());
            assert!(!dump.contains(&digits));
        }
    }
    // Another master key does not open the document.
    let url = Url::parse(&world.url, Path::new("/")).unwrap();
    let store = Postgres::new(&url, &Options::default(), &Handle::current());
    let wrong = KeyRing::new(MasterKey::new(&[8; 32]));
    let opened = Sealer::open(Arc::new(store.unwrap()), wrong).await;
    assert!(opened.unwrap_err().to_string().contains("wrong master key"));
}
