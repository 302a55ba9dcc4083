//! Tests the sources of ticket keys: a shared catalog, or a file.

#![allow(clippy::unwrap_used)]

mod common;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use common::{Running, Scripted, Setup, host, resuming, start};
use rustls::{ClientConfig, HandshakeKind};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer};
use sekisho_certs::store::{Document, DocumentId, Precondition, Write};
use sekisho_certs::{Clock, DocumentEvent, Documents, Secret};
use sekisho_server::tickets::{Keeper, PERIOD, Ring, Source};
use sekisho_testkit::Memory;
use sekisho_testkit::{Key, Pair, TestCa, client};
use tokio::sync::{Barrier, broadcast};
use tokio_rustls::TlsConnector;

/// State that outlives the servers which share it.
struct World {
    ca: TestCa,
    pair: Pair,
    sealer: Sealer,
    now: Arc<AtomicI64>,
}

impl World {
    async fn new() -> Self {
        let ca = TestCa::new();
        let pair = ca.issue(&["a.example"], Key::P256);
        let now = Arc::new(AtomicI64::new(1000 * PERIOD * 1000));
        let memory = Arc::new(Memory::new(Clock::Manual(Arc::clone(&now))));
        let master = KeyRing::new(MasterKey::new(&[7; 32]));
        Self {
            ca,
            pair,
            sealer: Sealer::create(memory, master).await.unwrap(),
            now,
        }
    }

    fn keeper(&self, ring: &Arc<Ring>) -> Keeper {
        let events = broadcast::Sender::<DocumentEvent>::new(1).subscribe();
        let source = Source::Catalog(self.sealer.clone(), events);
        Keeper::new(
            source,
            Arc::clone(ring),
            Clock::Manual(Arc::clone(&self.now)),
        )
    }

    /// Starts a server whose keeper has refreshed once.
    async fn server(&self) -> (Running, Keeper) {
        let ring = Arc::new(Ring::random());
        let mut keeper = self.keeper(&ring);
        keeper.refresh().await.unwrap();
        let store = Scripted::new([host("a.example", &[(&self.pair, Key::P256)])]);
        let setup = Setup {
            ring,
            ..Setup::default()
        };
        (start(store, &setup), keeper)
    }

    /// Makes each refresh from the catalog fail.
    async fn break_document(&self) {
        let id = DocumentId::new("ticket-keys", "ring");
        let document = Document::new(id, Secret::new(b"of no known format".to_vec()));
        let write = Write::PutDocument(document, Precondition::Any);
        self.sealer.write(vec![write]).await.unwrap();
    }

    fn periods_pass(&self, periods: i64) {
        self.now
            .fetch_add(periods * PERIOD * 1000, Ordering::SeqCst);
    }
}

async fn handshake(running: &Running, config: &Arc<ClientConfig>) -> HandshakeKind {
    let mut stream = TlsConnector::from(Arc::clone(config))
        .connect(
            "a.example".try_into().unwrap(),
            tokio::net::TcpStream::connect(running.address)
                .await
                .unwrap(),
        )
        .await
        .unwrap();
    let kind = stream.get_ref().1.handshake_kind().unwrap();
    // The server sends the tickets with the answer.
    let request = b"GET / HTTP/1.1\r\nHost: a.example\r\nConnection: close\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, request)
        .await
        .unwrap();
    let mut answer = Vec::new();
    tokio::io::AsyncReadExt::read_to_end(&mut stream, &mut answer)
        .await
        .unwrap();
    kind
}

#[tokio::test]
async fn sessions_resume_over_a_restart_and_on_other_servers() {
    let world = World::new().await;
    let config = resuming(&world.ca, false);
    let (first, _) = world.server().await;
    assert_eq!(handshake(&first, &config).await, HandshakeKind::Full);
    first.shutdown.end();
    first.ended.await.unwrap().unwrap();
    let (again, _) = world.server().await;
    assert_eq!(handshake(&again, &config).await, HandshakeKind::Resumed);
    let (beside, _) = world.server().await;
    assert_eq!(handshake(&beside, &config).await, HandshakeKind::Resumed);
}

#[tokio::test]
async fn keys_rotate_and_every_server_has_the_next_one_already() {
    let world = World::new().await;
    let (first, mut rotating) = world.server().await;
    let (other, _never_looks_again) = world.server().await;
    let config = resuming(&world.ca, false);
    handshake(&first, &config).await;
    world.periods_pass(1);
    rotating.refresh().await.unwrap();
    let kind = handshake(&first, &config).await;
    assert_eq!(kind, HandshakeKind::Resumed, "the previous key opens");
    // That handshake gave tickets of the new key, which the other server got
    // one period ahead.
    assert_eq!(handshake(&other, &config).await, HandshakeKind::Resumed);
    handshake(&first, &config).await;
    world.periods_pass(2);
    rotating.refresh().await.unwrap();
    let kind = handshake(&first, &config).await;
    assert_eq!(kind, HandshakeKind::Full, "two periods later it is gone");
}

#[tokio::test]
async fn without_the_catalog_no_key_seals_beyond_its_period() {
    let world = World::new().await;
    let (first, mut keeping) = world.server().await;
    let (other, mut beside) = world.server().await;
    let config = resuming(&world.ca, false);
    handshake(&first, &config).await;
    world.break_document().await;
    world.periods_pass(1);
    keeping.refresh().await.unwrap_err();
    beside.refresh().await.unwrap_err();
    assert_eq!(handshake(&first, &config).await, HandshakeKind::Resumed);
    let kind = handshake(&other, &config).await;
    assert_eq!(kind, HandshakeKind::Resumed, "both had the next key");
    world.periods_pass(2);
    keeping.refresh().await.unwrap_err();
    beside.refresh().await.unwrap_err();
    let kind = handshake(&first, &config).await;
    assert_eq!(kind, HandshakeKind::Full, "no key of the catalog is left");
    keeping.refresh().await.unwrap_err();
    let kind = handshake(&first, &config).await;
    assert_eq!(kind, HandshakeKind::Resumed, "its own key stays");
    assert_eq!(handshake(&other, &config).await, HandshakeKind::Full);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 8)]
async fn one_makes_the_keys_and_the_others_take_them() {
    let world = World::new().await;
    let rings: Vec<_> = (0..8).map(|_| Arc::new(Ring::random())).collect();
    let together = Arc::new(Barrier::new(8));
    let all = rings.iter().map(|ring| {
        let mut keeper = world.keeper(ring);
        let together = Arc::clone(&together);
        tokio::spawn(async move {
            together.wait().await;
            while keeper.refresh().await.unwrap() < Duration::from_secs(60) {
                tokio::task::yield_now().await;
            }
        })
    });
    for keeper in all.collect::<Vec<_>>() {
        keeper.await.unwrap();
    }
    let documents = world
        .sealer
        .catalog()
        .list_documents(&"ticket-keys".into(), None, 10)
        .await;
    assert_eq!(documents.unwrap().len(), 1);
    let changes = world
        .sealer
        .catalog()
        .changes(0, 100)
        .await
        .unwrap()
        .changes;
    let written = changes.iter().filter(|change| {
        matches!(&change.subject, sekisho_certs::store::Subject::Document(id)
            if id.kind.as_str() == "ticket-keys")
    });
    assert_eq!(written.count(), 1, "written once");
}

#[tokio::test(start_paused = true)]
async fn a_running_keeper_rotates() {
    let world = World::new().await;
    let documents = Documents::default();
    let ring = Arc::new(Ring::random());
    let source = Source::Catalog(world.sealer.clone(), documents.subscribe());
    let clock = Clock::Manual(Arc::clone(&world.now));
    let keeper = tokio::spawn(Keeper::new(source, ring, clock).run());
    let id = DocumentId::new("ticket-keys", "ring");
    let document = || world.sealer.catalog().document(&id);
    while document().await.unwrap().is_none() {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    let before = document().await.unwrap().unwrap().version;
    world.periods_pass(1);
    while document().await.unwrap().unwrap().version == before {
        tokio::time::sleep(Duration::from_secs(1)).await;
    }
    keeper.abort();
}

#[tokio::test]
async fn a_key_file_is_read_again_when_it_changes() {
    let world = World::new().await;
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("tickets.key");
    let keeper = |ring: &Arc<Ring>, path: &Path| {
        let source = Source::File(path.to_owned());
        Keeper::new(source, Arc::clone(ring), Clock::System)
    };
    let server = |ring: &Arc<Ring>| {
        let setup = Setup {
            ring: Arc::clone(ring),
            ..Setup::default()
        };
        start(
            Scripted::new([host("a.example", &[(&world.pair, Key::P256)])]),
            &setup,
        )
    };
    let (ring, other) = (Arc::new(Ring::random()), Arc::new(Ring::random()));
    let mut keeping = keeper(&ring, &path);
    let missing = keeping.refresh().await.unwrap_err().to_string();
    assert!(missing.contains("tickets.key"), "{missing}");
    std::fs::write(&path, [1; 80]).unwrap();
    std::fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    let exposed = keeping.refresh().await.unwrap_err().to_string();
    assert!(exposed.contains("mode 640"), "{exposed}");
    std::fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    for wrong in [47, 49, 81, 1 << 20] {
        std::fs::write(&path, vec![1; wrong]).unwrap();
        let error = keeping.refresh().await.unwrap_err().to_string();
        assert!(error.contains("48 or 80 bytes"), "{error}");
    }
    std::fs::write(&path, [1; 80]).unwrap();
    keeping.refresh().await.unwrap();
    keeper(&other, &path).refresh().await.unwrap();
    let (one, two) = (server(&ring), server(&other));
    let config = resuming(&world.ca, true);
    handshake(&one, &config).await;
    assert_eq!(handshake(&two, &config).await, HandshakeKind::Resumed);
    std::fs::write(&path, [2; 48]).unwrap();
    keeping.refresh().await.unwrap();
    let kind = handshake(&one, &config).await;
    assert_eq!(kind, HandshakeKind::Resumed, "the previous one opens");
    assert!(
        client::connect(one.address, "a.example", client::config(&world.ca))
            .await
            .is_ok()
    );
}
