//! The log against the cache, and against loads in flight.

use std::time::Duration;

use sekisho_certs::store::{DocumentId, LogId, LogPosition, Subject};
use sekisho_certs::{CredentialId, HostName, HostPattern, KeyType, Outcome, Served};
use sekisho_testkit::Key;
use tokio::task::yield_now;
use tokio::time::{advance, pause};

use crate::scripted::{
    CA, LOG, ask, change, change_of, credential, held_store, host, host_change, host_version,
    pattern, store, watched,
};

#[tokio::test]
async fn a_million_names_below_a_wildcard_cost_one_call() {
    // A slow machine may need longer than the feed's 10 s.
    pause();
    let store = store();
    store.put(host("*.w.test", 1));
    let lookup = watched(&store);
    for number in 0..1_000_000_u64 {
        // A multiplicative walk: no two alike, in no order.
        let name = format!("{:x}.w.test", number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        assert!(matches!(ask(&lookup, &name).await, Outcome::Found(_)));
    }
    assert_eq!(store.calls(), 1);
    let usage = lookup.stats().usage;
    assert_eq!((usage.records, usage.notes), (1, 0));
}

#[tokio::test]
async fn below_a_shadowed_wildcard_each_name_leaves_an_alias() {
    let store = store();
    store.put(host("*.w.test", 1));
    store.put(host("a.w.test", 2));
    let lookup = watched(&store);
    for _ in 0..2 {
        assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
        assert_eq!(pattern(&lookup, "c.w.test").await, "*.w.test");
        assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
    }
    assert_eq!(store.calls(), 3);
    assert_eq!(
        (lookup.stats().usage.records, lookup.stats().usage.notes),
        (2, 2)
    );
}

#[tokio::test]
async fn a_new_exact_record_shadows_the_cached_wildcard() {
    let store = store();
    store.put(host("*.w.test", 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    store.put(host("a.w.test", 2));
    lookup.apply(&host_change(1, "a.w.test"));
    assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert_eq!(store.calls(), 3);
}

#[tokio::test]
async fn a_changed_wildcard_voids_what_was_noted_below() {
    let store = store();
    store.put(host("a.w.test", 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "b.w.test").await, "Absent(NoHost)");
    assert_eq!(pattern(&lookup, "b.v.test").await, "Absent(NoHost)");
    store.put(host("*.w.test", 2));
    lookup.apply(&host_change(1, "*.w.test"));
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert_eq!(
        lookup.stats().usage.notes,
        2,
        "an alias, and the absence elsewhere"
    );
    store.remove("*.w.test");
    lookup.apply(&host_change(2, "*.w.test"));
    assert_eq!(pattern(&lookup, "b.w.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 4);
}

#[tokio::test]
async fn a_change_raises_the_revision_and_a_removed_host_is_gone() {
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let Outcome::Found(served) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    let revision = lookup.revision();
    assert!(lookup.is_current(&served, revision));
    store.remove("a.test");
    lookup.apply(&host_change(2, "a.test"));
    assert!(!lookup.is_current(&served, revision));
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
}

#[tokio::test]
async fn a_replaced_credential_is_one_change_for_all_its_hosts() {
    let store = store();
    for name in ["a.test", "b.test", "c.test"] {
        store.put(host(name, 9));
    }
    let lookup = watched(&store);
    for name in ["a.test", "b.test", "c.test"] {
        assert_eq!(pattern(&lookup, name).await, name);
        store.put(host_version(name, 9, 5));
    }
    lookup.apply(&change(5, Subject::Credential(CredentialId::from_u64(9))));
    for name in ["a.test", "b.test", "c.test"] {
        let Outcome::Found(served) = ask(&lookup, name).await else {
            panic!("not found")
        };
        assert_eq!(served.host().credentials[0].version, 5);
    }
    assert_eq!(store.calls(), 6);
    // A replaced credential is not served on when the store fails either.
    lookup.apply(&change(6, Subject::Credential(CredentialId::from_u64(9))));
    store.fail(true);
    assert!(matches!(ask(&lookup, "a.test").await, Outcome::Failed(_)));
}

#[tokio::test]
async fn a_change_that_the_load_has_seen_drops_nothing() {
    let store = store();
    store.put(host_version("a.test", 1, 5));
    store.put(host_version("*.w.test", 2, 6));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    lookup.apply(&host_change(5, "a.test"));
    lookup.apply(&host_change(6, "*.w.test"));
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert_eq!(store.calls(), 2);
    // Numbers of another log say nothing of what was read before.
    lookup.restart(LogPosition {
        log: LogId([8; 16]),
        number: 1,
        mark: 0,
    });
    store.remove("a.test");
    lookup.apply(&change_of(
        LogId([8; 16]),
        2,
        Subject::Host(HostPattern::parse("a.test").unwrap()),
    ));
    store.fail(true);
    assert!(matches!(ask(&lookup, "a.test").await, Outcome::Failed(_)));
}

#[tokio::test]
async fn a_load_that_a_change_overtakes_runs_again() {
    let store = held_store();
    store.put(host_version("a.test", 1, 1));
    let lookup = watched(&store);
    let load = tokio::spawn(lookup.load(&HostName::parse("a.test").unwrap()));
    yield_now().await;
    assert_eq!(store.calls(), 1, "it has read the old state");
    store.put(host_version("a.test", 2, 3));
    lookup.apply(&host_change(3, "a.test"));
    store.release(2);
    let Outcome::Found(served) = load.await.unwrap() else {
        panic!("not found")
    };
    assert_eq!(served.host().record.version, 3, "nobody gets the old state");
    assert_eq!(store.calls(), 2);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(store.calls(), 2, "and the new one is kept");
}

#[tokio::test]
async fn changes_elsewhere_do_not_repeat_a_load() {
    let store = held_store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let load = tokio::spawn(lookup.load(&HostName::parse("a.test").unwrap()));
    yield_now().await;
    for number in 1..=9000 {
        lookup.apply(&host_change(
            number,
            if number > 8000 { "b.test" } else { "c.test" },
        ));
    }
    store.release(2);
    assert!(matches!(load.await.unwrap(), Outcome::Found(_)));
    // Not all of so many changes are remembered: reading again is the safe way.
    assert_eq!(store.calls(), 2);
    store.put(host("d.test", 2));
    let load = tokio::spawn(lookup.load(&HostName::parse("d.test").unwrap()));
    yield_now().await;
    lookup.apply(&host_change(9001, "b.test"));
    store.release(1);
    assert!(matches!(load.await.unwrap(), Outcome::Found(_)));
    assert_eq!(store.calls(), 3);
}

#[tokio::test]
async fn an_exact_record_that_appears_during_a_wildcard_load_shadows_it() {
    let store = held_store();
    store.put(host("*.w.test", 1));
    let lookup = watched(&store);
    let load = tokio::spawn(lookup.load(&HostName::parse("b.w.test").unwrap()));
    yield_now().await;
    store.put(host("a.w.test", 2));
    lookup.apply(&host_change(1, "a.w.test"));
    store.release(2);
    assert!(matches!(load.await.unwrap(), Outcome::Found(_)));
    assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert_eq!(store.calls(), 2, "b's alias was kept");
}

#[tokio::test]
async fn an_absence_that_a_change_overtakes_is_read_again() {
    let store = held_store();
    let lookup = watched(&store);
    let load = tokio::spawn(lookup.load(&HostName::parse("a.w.test").unwrap()));
    yield_now().await;
    store.put(host("*.w.test", 1));
    lookup.apply(&host_change(1, "*.w.test"));
    store.release(2);
    assert!(matches!(load.await.unwrap(), Outcome::Found(_)));
}

#[tokio::test]
async fn after_a_gap_everything_is_read_again_before_it_is_trusted() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    store.put(host("b.test", 2));
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    store.fail(true);
    assert_eq!(
        pattern(&lookup, "a.test").await,
        "a.test",
        "served on while the store fails"
    );
    assert!(
        matches!(ask(&lookup, "b.test").await, Outcome::Failed(_)),
        "an absence is not"
    );
    store.fail(false);
    assert_eq!(pattern(&lookup, "b.test").await, "b.test");
    store.remove("a.test");
    // A store that has just failed is left alone for a second.
    advance(Duration::from_secs(2)).await;
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
}

#[tokio::test]
async fn a_change_that_is_forgotten_is_not_overlooked() {
    let store = held_store();
    store.put(host_version("a.test", 1, 1));
    let lookup = watched(&store);
    let load = tokio::spawn(lookup.load(&HostName::parse("a.test").unwrap()));
    yield_now().await;
    store.put(host_version("a.test", 2, 2));
    lookup.apply(&host_change(1, "a.test"));
    for number in 2..=8200 {
        lookup.apply(&host_change(number, "b.test"));
    }
    // Documents take no place among what is remembered, and make none.
    for number in 8201..8300 {
        let id = DocumentId::new("test", "one");
        lookup.apply(&change(number, Subject::Document(id)));
    }
    store.release(2);
    let Outcome::Found(served) = load.await.unwrap() else {
        panic!("not found")
    };
    assert_eq!(served.host().record.version, 2);
}

#[tokio::test]
async fn versions_of_a_restored_log_are_not_taken_for_the_old_ones() {
    let store = store();
    store.put(host_version("a.test", 9, 305));
    let lookup = watched(&store);
    let Outcome::Found(old) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    // Restored from a backup, then replaced by what got the same number.
    let mut again = host_version("a.test", 9, 305);
    let other = CA.issue(&["a.test"], Key::P256);
    again.credentials = vec![credential(&other, KeyType::Ecdsa, 9, 305)];
    store.put(again);
    lookup.restart(LogPosition {
        log: LogId([8; 16]),
        number: 305,
        mark: 0,
    });
    let Outcome::Found(new) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    let leaf = |served: &Served<String>| served.host().credentials[0].certified().cert[0].clone();
    assert_ne!(leaf(&old), leaf(&new));
    // An older version than the one that was loaded is no worse.
    store.put(host_version("a.test", 9, 300));
    lookup.restart(LogPosition {
        log: LogId([9; 16]),
        number: 300,
        mark: 0,
    });
    for _ in 0..3 {
        assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    }
    assert_eq!(store.calls(), 3);
}

#[tokio::test]
async fn after_a_gap_an_alias_is_at_hand_while_the_store_fails() {
    let store = store();
    store.put(host("*.w.test", 1));
    store.put(host("a.w.test", 2));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    lookup.restart(LogPosition {
        log: LOG,
        number: 50,
        mark: 0,
    });
    store.fail(true);
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
}
