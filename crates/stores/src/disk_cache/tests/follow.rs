//! Changes of the log drop copies, now and after a restart.

use std::sync::atomic::Ordering;

use super::*;
use sekisho_testkit::contract::fixture::{pattern, put_host, record_of};

impl Rig {
    async fn remove(&self, name: &str) {
        self.write(vec![Write::RemoveHost(pattern(name), Precondition::Any)])
            .await;
    }
}

#[tokio::test]
async fn what_changed_does_not_come_back() {
    let rig = Rig::new();
    for name in ["a.example", "b.example", "stays.example"] {
        rig.put(name).await;
    }
    let server = rig.following().await;
    for name in ["a.example", "b.example", "stays.example"] {
        assert_eq!(server.who(name).await, name);
    }
    server.kept(3).await;
    rig.remove("a.example").await;
    rig.write(vec![put_host(record_of("b.example", "another"))])
        .await;
    server.follow().await;
    rig.switch.say(away());
    // In this process, and in the next one.
    let mut server = server;
    for _ in 0..2 {
        assert_eq!(server.who("a.example").await, AWAY);
        assert_eq!(server.who("b.example").await, AWAY);
        assert_eq!(server.who("stays.example").await, "stays.example");
        server.kept(1).await;
        drop(server);
        server = rig.server().await;
    }
}

#[tokio::test]
async fn a_replaced_credential_takes_all_its_hosts_along() {
    let rig = Rig::new();
    let id = rig.put("a.example").await;
    let mut other = rig.there.host("a.example").await.unwrap();
    other.pattern = pattern("b.example");
    rig.write(vec![put_host(other)]).await;
    let server = rig.following().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(server.who(name).await, name);
    }
    server.kept(2).await;
    let mut writes = host_with("c.example", 99, plain);
    if let Write::PutCredential(credential, _) = &mut writes[0] {
        credential.id = id;
    }
    rig.write(vec![writes.remove(0)]).await;
    server.follow().await;
    rig.switch.say(away());
    for name in ["a.example", "b.example"] {
        assert_eq!(server.who(name).await, AWAY);
    }
}

#[tokio::test]
async fn what_changed_while_it_was_down_is_dropped_at_the_first_contact() {
    let rig = Rig::new();
    rig.put("a.example").await;
    rig.put("b.example").await;
    let server = rig.following().await;
    for name in ["a.example", "b.example"] {
        assert_eq!(server.who(name).await, name);
    }
    server.kept(2).await;
    drop(server);
    rig.remove("a.example").await;
    let server = rig.following().await;
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
    assert_eq!(server.who("b.example").await, "b.example");
    drop(server);
    let server = rig.server().await;
    assert_eq!(server.who("a.example").await, AWAY);
}

#[tokio::test]
async fn another_log_or_a_gap_drops_all() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    rig.switch.other_log.store(true, Ordering::SeqCst);
    server.follow().await;
    server.kept(0).await;
    // That version is kept again.
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    for round in 0..=Fixture::KEEP {
        let record = record_of("other.example", &round.to_string());
        rig.write(vec![put_host(record)]).await;
    }
    server.follow().await;
    server.kept(0).await;
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
}

/// Pages that a hung disk did not take are read again from its own number.
#[tokio::test]
async fn a_disk_that_was_late_is_paged_from_its_own_number() {
    let rig = Rig::new();
    for name in ["a.example", "b.example", "c.example"] {
        rig.put(name).await;
    }
    let server = rig.following().await;
    for name in ["a.example", "b.example", "c.example"] {
        assert_eq!(server.who(name).await, name);
    }
    server.kept(3).await;
    let (hang, hung) = std::sync::mpsc::channel::<()>();
    server.disk.hang(hung).await;
    // The feed gives up, and hands it no further page.
    for name in ["a.example", "b.example"] {
        rig.remove(name).await;
        let at = server.sealer.seen().note().position.unwrap();
        let page = rig.there.catalog.changes(at.number, 10).await.unwrap();
        let followed = server.disk.follow(&page);
        if tokio::time::timeout(LOOK, followed).await.is_err() {
            server.disk.late();
        }
        server.sealer.seen().raise(page.continued(at).unwrap());
    }
    drop(hang);
    server.settled().await;
    server.kept(1).await;
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
    assert_eq!(server.who("b.example").await, AWAY);
    assert_eq!(server.who("c.example").await, "c.example");
}

/// A copy answers only if the file is as far as this process has seen.
#[tokio::test]
async fn a_disk_that_is_behind_answers_nothing() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    server.sealer.seen().wrote(rig.there.number().await + 1);
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
}

#[tokio::test]
async fn what_a_change_overtook_is_not_kept() {
    let rig = Rig::new();
    rig.put("a.example").await;
    rig.put("b.example").await;
    let server = rig.following().await;
    let closed = rig.switch.gate.write().await;
    let load = |name: &'static str| {
        let tiers = Arc::clone(&server.tiers);
        tokio::spawn(async move { who(&*tiers, name).await })
    };
    let loads = [load("a.example"), load("b.example")];
    // Both have read, and neither has its answer.
    tokio::task::yield_now().await;
    rig.remove("a.example").await;
    server.follow().await;
    drop(closed);
    for load in loads {
        load.await.unwrap();
    }
    server.kept(1).await;
    rig.switch.say(away());
    assert_eq!(server.who("a.example").await, AWAY);
    assert_eq!(server.who("b.example").await, "b.example");
}

#[tokio::test]
async fn a_name_of_its_own_shadows_the_wildcard() {
    let rig = Rig::new();
    rig.put("*.b.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("x.b.example").await, "*.b.example");
    server.kept(1).await;
    rig.put("own.b.example").await;
    server.follow().await;
    rig.switch.say(away());
    for name in ["own.b.example", "x.b.example"] {
        assert_eq!(server.who(name).await, AWAY);
    }
    // The wildcard's answer is noted now, and dropped with it.
    rig.switch.say(None);
    assert_eq!(server.who("x.b.example").await, "*.b.example");
    assert_eq!(server.who("y.b.example").await, "*.b.example");
    let answered = async |name| {
        rig.switch.say(away());
        let answered = server.who(name).await;
        rig.switch.say(None);
        answered
    };
    for name in ["x.b.example", "y.b.example"] {
        let begun = Instant::now();
        while answered(name).await != "*.b.example" {
            assert!(begun.elapsed() < LONG);
        }
    }
    rig.put("y.b.example").await;
    server.follow().await;
    assert_eq!(answered("x.b.example").await, "*.b.example");
    assert!(answered("y.b.example").await.contains("unavailable"));
    rig.remove("*.b.example").await;
    server.follow().await;
    assert!(answered("x.b.example").await.contains("unavailable"));
}
