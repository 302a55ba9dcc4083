//! Another catalog behind the same address than the one that copies are of.

use super::*;
use sekisho_certs::store::DocumentId;

fn other() -> Arc<dyn Catalog> {
    let (clock, _) = Fixture::clock();
    Arc::new(Memory::keeping(clock, Fixture::KEEP))
}

/// Puts a host into a catalog, through what seals.
async fn with(catalog: &Arc<dyn Catalog>, name: &str) -> Sealer {
    let sealer = Sealer::create(Arc::clone(catalog), ring()).await.unwrap();
    sealer.write(host_with(name, 1, plain)).await.unwrap();
    sealer
}

/// Found by review: what the copies opened stayed open, so that a database
/// that was set up anew could not be read before the next restart, and what
/// was written into it opened for nobody.
#[tokio::test]
async fn another_catalog_is_opened_when_it_answers() {
    let rig = Rig::new();
    with(&rig.there.catalog, "old.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("old.example").await, "old.example");
    server.kept(1).await;
    drop(server);

    rig.switch.say(away());
    let server = rig.server().await;
    assert_eq!(server.who("old.example").await, "old.example");
    let other = other();
    let there = with(&other, "new.example").await;
    rig.switch.replace(other);
    rig.switch.say(None);
    // Nothing of the one lands in the other, whoever meets it first.
    let put = || {
        let document = Document::new(DocumentId::new("kept", "k"), plain(b"keys"));
        vec![Write::PutDocument(document, Precondition::Any)]
    };
    let begun = Instant::now();
    while let Err(error) = server.sealer.write(put()).await {
        assert!(error.is_retryable() && begun.elapsed() < LONG, "{error}");
    }
    let written = there
        .document(&DocumentId::new("kept", "k"))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(written.bytes.expose(), b"keys");
    server.follow().await;
    assert_eq!(server.who("new.example").await, "new.example");
    assert_eq!(server.who("old.example").await, "");
    server.kept(1).await;
}

/// Found by review: it was kept as a copy of the new one.
#[tokio::test]
async fn what_was_read_of_the_other_is_not_kept() {
    let rig = Rig::new();
    rig.put("old.example").await;
    let server = rig.following().await;
    let closed = rig.switch.gate.write().await;
    let reading = Arc::clone(&server.tiers);
    let read = tokio::spawn(async move { who(&*reading, "old.example").await });
    // The call has read, and has no answer.
    tokio::task::yield_now().await;
    let other = other();
    with(&other, "new.example").await;
    rig.switch.replace(other);
    server.follow().await;
    drop(closed);
    read.await.unwrap();
    server.settled().await;
    assert_eq!(server.disk.stats().copies.get(), 0);
}

/// The feed is the first to meet it.
#[tokio::test]
async fn another_catalog_is_opened_when_the_feed_begins() {
    let rig = Rig::new();
    with(&rig.there.catalog, "old.example").await;
    let server = rig.server().await;
    let other = other();
    with(&other, "new.example").await;
    rig.switch.replace(other);
    server.follow().await;
    let begun = Instant::now();
    while server.who("new.example").await != "new.example" {
        assert!(begun.elapsed() < LONG);
        tokio::time::sleep(LOOK).await;
    }
    server.kept(1).await;
}
