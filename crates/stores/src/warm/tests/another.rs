//! Another catalog behind the same address than the one that copies are of.

use super::*;
use sekisho_certs::contract::fixture::{host_with, plain};
use sekisho_certs::seal::MasterKey;
use sekisho_certs::store::{Document, Expect, Write};

fn ring() -> KeyRing {
    KeyRing::new(MasterKey::new(&[5; 32]))
}

/// Puts a host into a catalog, through what seals.
async fn with(catalog: &Arc<dyn Catalog>, name: &str) -> Sealer {
    let sealer = Sealer::create(Arc::clone(catalog), ring()).await.unwrap();
    let host = host_with(name, 1, plain);
    sealer.write(host).await.unwrap();
    sealer
}

/// Found by review: what the copies opened stayed open, so that a database
/// that was set up anew could not be read before the next restart, and what
/// was written into it opened for nobody.
#[tokio::test]
async fn it_is_opened_when_it_is_met() {
    let rig = Rig::new();
    with(&rig.there.catalog, "old.example").await;
    let (sealed, copies) = rig.opened(ring()).await.unwrap();
    sealed.head().await.unwrap();
    assert_eq!(who(&sealed, "old.example").await, "old.example");
    kept(&copies, 1).await;
    drop((sealed, copies));

    rig.switch.say(away());
    let (sealed, copies) = rig.opened(ring()).await.unwrap();
    assert_eq!(who(&sealed, "old.example").await, "old.example");
    let (clock, _) = Fixture::clock();
    let other: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
    let there = with(&other, "new.example").await;
    rig.switch.replace(other);
    rig.switch.say(None);
    // Nothing of the one lands in the other, whoever meets it first.
    let put = || {
        let document = Document {
            kind: "kept".to_owned(),
            key: "k".to_owned(),
            bytes: plain(b"keys"),
            expires: None,
            version: 0,
        };
        vec![Write::PutDocument(document, Expect::Any)]
    };
    let begun = Instant::now();
    while let Err(error) = sealed.sealer().write(put()).await {
        assert!(error.is_retryable() && begun.elapsed() < LONG, "{error}");
    }
    let written = there.document("kept", "k").await.unwrap().unwrap();
    assert_eq!(written.bytes.expose(), b"keys");
    sealed.head().await.unwrap();
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
    with(&rig.there.catalog, "old.example").await;
    let (sealed, copies) = rig.opened(ring()).await.unwrap();
    sealed.head().await.unwrap();
    let (clock, _) = Fixture::clock();
    let other: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
    with(&other, "new.example").await;
    rig.switch.replace(other);
    sealed.head().await.unwrap();
    assert_eq!(who(&sealed, "new.example").await, "new.example");
    kept(&copies, 1).await;
}
