//! What the log says drops copies, now and after a restart.

use std::sync::atomic::Ordering;

use super::*;
use sekisho_certs::contract::fixture::{pattern, put_host, record_of};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::store::{Expect, Write};

impl Rig {
    async fn write(&self, write: Write<SealedBytes>) {
        self.there
            .catalog
            .write(Batch::unchecked(vec![write]))
            .await
            .unwrap();
    }

    async fn remove(&self, name: &str) {
        self.write(Write::RemoveHost(pattern(name), Expect::Any))
            .await;
    }
}

#[tokio::test]
async fn what_changed_does_not_come_back() {
    let rig = Rig::new();
    for name in ["a.example", "b.example", "stays.example"] {
        rig.there.put(name).await;
    }
    let (warm, copies, at) = rig.following().await;
    for name in ["a.example", "b.example", "stays.example"] {
        assert_eq!(who(&warm, name).await, name);
    }
    kept(&copies, 3).await;
    rig.remove("a.example").await;
    rig.write(put_host(record_of("b.example", "another"))).await;
    warm.changes(at.number, 100).await.unwrap();
    rig.switch.say(away());
    // In this process, and in the next one.
    let mut running = (warm, copies);
    for _ in 0..2 {
        let warm = &running.0;
        assert_eq!(who(warm, "a.example").await, AWAY);
        assert_eq!(who(warm, "b.example").await, AWAY);
        assert_eq!(who(warm, "stays.example").await, "stays.example");
        kept(&running.1, 1).await;
        drop(running);
        running = rig.warm();
    }
}

#[tokio::test]
async fn a_replaced_credential_takes_all_its_hosts_along() {
    let rig = Rig::new();
    let id = rig.there.put("a.example").await;
    let mut other = rig.there.host("a.example").await.unwrap();
    other.pattern = pattern("b.example");
    rig.write(put_host(other)).await;
    let (warm, copies, at) = rig.following().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&warm, name).await, name);
    }
    kept(&copies, 2).await;
    let mut credential = rig.there.credential();
    credential.id = id;
    rig.write(Write::PutCredential(credential, Expect::Any))
        .await;
    warm.changes(at.number, 100).await.unwrap();
    rig.switch.say(away());
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&warm, name).await, AWAY);
    }
}

#[tokio::test]
async fn what_changed_while_it_was_down_is_dropped_at_the_first_contact() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    rig.there.put("b.example").await;
    let (warm, copies, _) = rig.following().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(who(&warm, name).await, name);
    }
    kept(&copies, 2).await;
    drop((warm, copies));
    rig.remove("a.example").await;
    let (warm, copies, _) = rig.following().await;
    rig.switch.say(away());
    assert_eq!(who(&warm, "a.example").await, AWAY);
    assert_eq!(who(&warm, "b.example").await, "b.example");
    drop((warm, copies));
    let (warm, _) = rig.warm();
    assert_eq!(who(&warm, "a.example").await, AWAY);
}

#[tokio::test]
async fn another_log_or_a_gap_drops_all() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    rig.switch.other_log.store(true, Ordering::SeqCst);
    let at = warm.head().await.unwrap();
    kept(&copies, 0).await;
    // The same version is kept again.
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    for round in 0..=Fixture::KEEP {
        let record = record_of("other.example", &round.to_string());
        rig.write(put_host(record)).await;
    }
    let page = warm.changes(at.number, 100).await.unwrap();
    assert!(page.gap);
    kept(&copies, 0).await;
    rig.switch.say(away());
    assert_eq!(who(&warm, "a.example").await, AWAY);
}

#[tokio::test]
async fn a_page_out_of_order_loses_no_change() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    let (warm, copies, _) = rig.following().await;
    assert_eq!(who(&warm, "a.example").await, "a.example");
    kept(&copies, 1).await;
    rig.remove("a.example").await;
    rig.there.put("b.example").await;
    // Another reader, who is further: what lies between is applied too.
    let last = rig.there.number().await;
    warm.changes(last - 1, 100).await.unwrap();
    kept(&copies, 0).await;
}

#[tokio::test]
async fn what_a_change_overtook_is_not_kept() {
    let rig = Rig::new();
    rig.there.put("a.example").await;
    rig.there.put("b.example").await;
    let (warm, copies, at) = rig.following().await;
    let warm = Arc::new(warm);
    let closed = rig.switch.gate.write().await;
    let load = |name: &'static str| {
        let warm = Arc::clone(&warm);
        tokio::spawn(async move { who(&*warm, name).await })
    };
    let loads = [load("a.example"), load("b.example")];
    // Both have read, and neither has its answer.
    tokio::task::yield_now().await;
    rig.remove("a.example").await;
    warm.changes(at.number, 100).await.unwrap();
    drop(closed);
    for load in loads {
        load.await.unwrap();
    }
    kept(&copies, 1).await;
    rig.switch.say(away());
    assert_eq!(who(&*warm, "a.example").await, AWAY);
    assert_eq!(who(&*warm, "b.example").await, "b.example");
}

#[tokio::test]
async fn a_name_of_its_own_shadows_the_wildcard() {
    let rig = Rig::new();
    rig.there.put("*.b.example").await;
    let (warm, copies, at) = rig.following().await;
    assert_eq!(who(&warm, "x.b.example").await, "*.b.example");
    kept(&copies, 1).await;
    rig.there.put("own.b.example").await;
    warm.changes(at.number, 100).await.unwrap();
    rig.switch.say(away());
    for name in ["own.b.example", "x.b.example"] {
        assert_eq!(who(&warm, name).await, AWAY);
    }
    // What the wildcard answers now is noted, and dropped with it.
    rig.switch.say(None);
    assert_eq!(who(&warm, "x.b.example").await, "*.b.example");
    assert_eq!(who(&warm, "y.b.example").await, "*.b.example");
    let answered = async |name| {
        rig.switch.say(away());
        let answered = who(&warm, name).await;
        rig.switch.say(None);
        answered
    };
    for name in ["x.b.example", "y.b.example"] {
        let begun = Instant::now();
        while answered(name).await != "*.b.example" {
            assert!(begun.elapsed() < LONG);
        }
    }
    let at = warm.head().await.unwrap();
    rig.there.put("y.b.example").await;
    warm.changes(at.number, 100).await.unwrap();
    assert_eq!(answered("x.b.example").await, "*.b.example");
    assert_eq!(answered("y.b.example").await, AWAY);
    let at = warm.head().await.unwrap();
    rig.remove("*.b.example").await;
    warm.changes(at.number, 100).await.unwrap();
    assert_eq!(answered("x.b.example").await, AWAY);
}

#[tokio::test]
async fn a_replaced_document_is_dropped() {
    let rig = Rig::new();
    let put = |bytes| Write::PutDocument(rig.there.document("kept", "k", bytes), Expect::Any);
    rig.write(put(b"old")).await;
    let (warm, copies, at) = rig.following().await;
    let old = warm.document("kept", "k").await.unwrap();
    rig.write(put(b"new")).await;
    warm.changes(at.number, 100).await.unwrap();
    // What was read before the change must not come after it.
    copies.post(move |keeper| keeper.put_document(old.unwrap()));
    rig.switch.say(away());
    assert!(warm.document("kept", "k").await.is_err());
    rig.switch.say(None);
    warm.document("kept", "k").await.unwrap().unwrap();
    rig.switch.say(away());
    warm.document("kept", "k").await.unwrap().unwrap();
}
