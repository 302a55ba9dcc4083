use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::sync::atomic::{AtomicI64, Ordering};

use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_testkit::Memory;

use super::super::schedule::PERIOD;
use super::*;

/// A clock that the test moves, in the middle of a period.
struct Time(Arc<AtomicI64>);

impl Time {
    fn new() -> Self {
        Self(Arc::new(AtomicI64::new((40_000 * PERIOD + 60) * 1000)))
    }

    fn clock(&self) -> Clock {
        Clock::Manual(Arc::clone(&self.0))
    }

    fn pass(&self, seconds: i64) {
        self.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }
}

fn keeper(source: Source, time: &Time) -> (Keeper, Arc<Ring>) {
    let ring = Arc::new(Ring::random());
    let keeper = Keeper::new(source, Arc::clone(&ring), time.clock());
    (keeper, ring)
}

fn opens(ring: &Ring, ticket: &[u8]) -> bool {
    ring.open(b"host", ticket).is_some()
}

fn ticket(ring: &Ring) -> Vec<u8> {
    ring.seal(b"host", b"session").unwrap()
}

#[tokio::test]
async fn processes_without_a_catalog_open_each_others_tickets() {
    let time = Time::new();
    let (mut old, old_ring) = keeper(Source::Process, &time);
    old.refresh().await.unwrap();
    let (mut new, new_ring) = keeper(Source::Process, &time);
    assert!(new.begin_with_keys(old_ring.keys().expose()));
    let both = |what: &str| {
        assert!(opens(&new_ring, &ticket(&old_ring)), "{what}");
        assert!(opens(&old_ring, &ticket(&new_ring)), "{what}");
    };
    both("before the first refresh");
    new.refresh().await.unwrap();
    both("after it");
    // The next period's key was handed over, too.
    time.pass(PERIOD);
    old.refresh().await.unwrap();
    new.refresh().await.unwrap();
    both("in the next period");
}

#[tokio::test]
async fn only_keys_that_hold_are_taken() {
    let time = Time::new();
    let (mut old, old_ring) = keeper(Source::Process, &time);
    let (mut new, new_ring) = keeper(Source::Process, &time);
    let own = ticket(&new_ring);
    // The key of a ring that no keeper has filled has no period.
    assert!(!new.begin_with_keys(old_ring.keys().expose()));
    old.refresh().await.unwrap();
    let keys = old_ring.keys();
    for wrong in [&b""[..], b"\x02", &keys.expose()[..20]] {
        assert!(!new.begin_with_keys(wrong));
    }
    time.pass(4 * PERIOD);
    assert!(!new.begin_with_keys(keys.expose()));
    assert!(opens(&new_ring, &own), "nothing was installed");
}

#[tokio::test]
async fn a_catalog_that_answers_replaces_what_was_handed_over() {
    let time = Time::new();
    let catalog = Arc::new(Memory::new(time.clock()));
    let ring = || KeyRing::new(MasterKey::new(&[7; 32]));
    let sealer = Sealer::create(catalog.clone(), ring()).await.unwrap();
    let (events, _) = broadcast::channel(1);
    let source = |sealer: &Sealer| Source::Catalog(sealer.clone(), events.subscribe());
    let (mut old, old_ring) = keeper(source(&sealer), &time);
    old.refresh().await.unwrap();

    // A catalog out of reach: it was never opened.
    let away = Sealer::unopened(Arc::new(Memory::new(time.clock())), ring());
    let (mut new, new_ring) = keeper(source(&away), &time);
    assert!(new.begin_with_keys(old_ring.keys().expose()));
    assert!(new.refresh().await.is_err());
    assert!(opens(&new_ring, &ticket(&old_ring)));
    assert!(opens(&old_ring, &ticket(&new_ring)));

    // Keys that the catalog has no more open nothing.
    let other = Sealer::create(Arc::new(Memory::new(time.clock())), ring()).await;
    let (mut newer, newer_ring) = keeper(source(&other.unwrap()), &time);
    assert!(newer.begin_with_keys(old_ring.keys().expose()));
    assert!(opens(&newer_ring, &ticket(&old_ring)));
    newer.refresh().await.unwrap();
    assert!(!opens(&newer_ring, &ticket(&old_ring)));
}

#[tokio::test]
async fn the_key_before_the_files_is_kept_if_it_is_of_that_file() {
    let time = Time::new();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("keys");
    let put = |byte: u8| {
        fs::write(&path, [byte; 80]).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    };
    put(1);
    let (mut old, old_ring) = keeper(Source::File(path.clone()), &time);
    old.refresh().await.unwrap();
    let earlier = ticket(&old_ring);
    put(2);
    old.refresh().await.unwrap();
    let (mut new, new_ring) = keeper(Source::File(path.clone()), &time);
    assert!(new.begin_with_keys(old_ring.keys().expose()));
    new.refresh().await.unwrap();
    assert!(opens(&new_ring, &earlier));
    assert!(opens(&new_ring, &ticket(&old_ring)));
    assert!(opens(&old_ring, &ticket(&new_ring)));

    // Keys of another source end when the file is read.
    let (mut process, process_ring) = keeper(Source::Process, &time);
    process.refresh().await.unwrap();
    let (mut other, other_ring) = keeper(Source::File(path.clone()), &time);
    assert!(other.begin_with_keys(process_ring.keys().expose()));
    assert!(opens(&other_ring, &ticket(&process_ring)));
    other.refresh().await.unwrap();
    assert!(!opens(&other_ring, &ticket(&process_ring)));
    assert!(opens(&other_ring, &ticket(&old_ring)));
}
