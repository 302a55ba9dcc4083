//! When a copy answers, and which.

use super::*;
use sekisho_testkit::contract::fixture::{pattern, put_host};

#[tokio::test]
async fn a_copy_answers_only_while_the_store_fails_and_may_recover() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    assert_eq!(server.who("a.example").await, "a.example");
    server.kept(1).await;
    drop(server);

    let server = rig.server().await;
    for error in [
        away(),
        Some(StoreError::Overloaded),
        Some(StoreError::TimedOut(Duration::from_secs(2))),
    ] {
        rig.switch.say(error.clone());
        assert_eq!(server.who("a.example").await, "a.example");
        // A failure is never an absence.
        let unknown = server.who("b.example").await;
        assert_eq!(unknown, error.unwrap().to_string());
    }
    assert_eq!(server.disk.stats().answers.get(), 3);
    for error in [
        StoreError::Corrupt("damaged".into()),
        StoreError::Refused("wrong".into()),
    ] {
        rig.switch.say(Some(error.clone()));
        assert_eq!(server.who("a.example").await, error.to_string());
    }
    // A store that answers is believed, whatever lies on the disk.
    rig.switch.say(None);
    let remove = Write::RemoveHost(pattern("a.example"), Precondition::Any);
    rig.write(vec![remove]).await;
    assert_eq!(server.who("a.example").await, "");
    assert_eq!(server.disk.stats().answers.get(), 3);
}

/// A copy is no contact with the store, and an answer of the store is.
#[tokio::test]
async fn what_stands_in_is_no_answer_of_the_store() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    let name = HostName::parse("a.example").unwrap();
    let is_stale = async || {
        let answer = server.tiers.find(&name).await.unwrap();
        assert!(answer.found.is_some());
        answer.is_stale
    };
    let is_away = || server.disk.inner.outage.lock().unwrap().is_away;
    assert!(!is_stale().await);
    server.kept(1).await;
    rig.switch.say(away());
    assert!(is_stale().await);
    assert!(is_away());
    rig.switch.say(None);
    assert!(!is_stale().await);
    assert!(!is_away());
}

#[tokio::test]
async fn everything_of_a_record_comes_back() {
    let rig = Rig::new();
    rig.put("a.example").await;
    let server = rig.following().await;
    let answer = async || {
        let found = server.find("a.example").await.unwrap();
        found.expect("it is there")
    };
    let before = answer().await;
    server.kept(1).await;
    rig.switch.say(away());
    let after = answer().await;
    assert_eq!(after.record, before.record);
    let (one, other) = (&before.credentials[0], &after.credentials[0]);
    assert_eq!(one.key.secret().expose(), other.key.secret().expose());
    assert_eq!((one.id, one.version), (other.id, other.version));
    assert_eq!(one.chain, other.chain);
}

#[tokio::test]
async fn a_wildcard_answers_what_it_alone_may() {
    let rig = Rig::new();
    for pattern in ["*.b.example", "*.c.example", "own.c.example"] {
        rig.put(pattern).await;
    }
    let server = rig.following().await;
    for name in ["one.b.example", "one.c.example"] {
        assert!(server.who(name).await.starts_with("*."));
    }
    server.kept(2).await;
    rig.switch.say(away());
    // Nothing stands below this one.
    assert_eq!(server.who("two.b.example").await, "*.b.example");
    // Below the other only what it has answered.
    assert_eq!(server.who("one.c.example").await, "*.c.example");
    assert_eq!(server.who("own.c.example").await, AWAY);
    assert_eq!(server.who("two.c.example").await, AWAY);
    assert_eq!(server.who("one.two.b.example").await, AWAY);
}

#[tokio::test]
async fn a_disabled_host_stays_disabled() {
    let rig = Rig::new();
    let mut off = HostRecord::new(pattern("off.example"));
    off.disabled = true;
    rig.write(vec![put_host(off)]).await;
    let server = rig.following().await;
    assert!(
        server
            .find("off.example")
            .await
            .unwrap()
            .unwrap()
            .record
            .disabled
    );
    server.kept(1).await;
    rig.switch.say(away());
    assert!(
        server
            .find("off.example")
            .await
            .unwrap()
            .unwrap()
            .record
            .disabled
    );
}
