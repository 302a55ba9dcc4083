//! Another catalog behind the same address than the one that copies are of.

use super::*;
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::sealed::Sealed;
use sekisho_certs::store::{Expect, Write};

fn ring() -> KeyRing {
    KeyRing::new(MasterKey::new(&[5; 32]))
}

/// A sealed catalog with that host, as a caller sees it.
async fn with(rig: &Rig, catalog: &Arc<dyn Catalog>, name: &str) -> Fixture {
    let sealed = Sealed::create(Arc::clone(catalog), ring()).await.unwrap();
    let fixture = Fixture {
        catalog: Arc::new(sealed),
        clock: Arc::clone(&rig.there.clock),
        sealed: false,
        keep: Box::new(()),
    };
    fixture.put(name).await;
    fixture
}

/// Found by review: what the copies opened stayed open, so that a database
/// that was set up anew could not be read before the next restart, and what
/// was written into it opened for nobody.
#[tokio::test]
async fn it_is_opened_when_it_is_met() {
    let rig = Rig::new();
    with(&rig, &rig.there.catalog, "old.example").await;
    let (warm, copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), ring()).await.unwrap();
    sealed.position().await.unwrap();
    assert_eq!(who(&sealed, "old.example").await, "old.example");
    kept(&copies, 1).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (warm, copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), ring()).await.unwrap();
    assert_eq!(who(&sealed, "old.example").await, "old.example");
    let (clock, _) = Fixture::clock();
    let other: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
    let there = with(&rig, &other, "new.example").await;
    rig.switch.replace(other);
    rig.switch.say(None);
    // Nothing of the one lands in the other, whoever meets it first.
    let put = || {
        let document = there.document("kept", "k", b"keys");
        vec![Write::PutDocument(document, Expect::Any)]
    };
    let begun = Instant::now();
    while let Err(error) = sealed.write(put()).await {
        assert!(error.is_retryable() && begun.elapsed() < LONG, "{error}");
    }
    let written = there.catalog.document("kept", "k").await.unwrap().unwrap();
    assert_eq!(written.bytes.secret().unwrap().expose(), b"keys");
    sealed.position().await.unwrap();
    assert_eq!(who(&sealed, "new.example").await, "new.example");
    assert_eq!(who(&sealed, "old.example").await, "");
    kept(&copies, 1).await;
}

/// Found by review: it was kept as a copy of the new one.
#[tokio::test]
async fn what_was_read_of_the_other_is_not_kept() {
    let rig = Rig::new();
    rig.there.put("old.example").await;
    let (warm, copies, _) = rig.following().await;
    let warm = Arc::new(warm);
    let closed = rig.switch.gate.write().await;
    let reading = Arc::clone(&warm);
    let read = tokio::spawn(async move { who(&*reading, "old.example").await });
    // It has read, and has no answer.
    tokio::task::yield_now().await;
    let (clock, _) = Fixture::clock();
    rig.switch
        .replace(Arc::new(Memory::keeping(clock, Fixture::KEEP)));
    warm.id().await.unwrap();
    drop(closed);
    assert_eq!(read.await.unwrap(), "old.example");
    until(|| copies.is_idle(), || format!("{copies:?}")).await;
    assert_eq!(copies.stats().copies, 0);
    assert!(copies.position().is_none());
}

/// The feed is the first to meet it.
#[tokio::test]
async fn it_is_opened_when_the_feed_begins() {
    let rig = Rig::new();
    with(&rig, &rig.there.catalog, "old.example").await;
    let (warm, copies) = rig.warm();
    let sealed = Sealed::open(Arc::new(warm), ring()).await.unwrap();
    sealed.position().await.unwrap();
    let (clock, _) = Fixture::clock();
    let other: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
    with(&rig, &other, "new.example").await;
    rig.switch.replace(other);
    sealed.position().await.unwrap();
    assert_eq!(who(&sealed, "new.example").await, "new.example");
    kept(&copies, 1).await;
}
