//! Singleflight: one load per name, shared by all waiters.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use sekisho_certs::store::LogPosition;
use sekisho_certs::{Cached, HostName, LookupError, Outcome};
use tokio::task::yield_now;

use crate::scripted::{LOG, held_store, host, host_change, pattern, store, watched};

#[tokio::test]
async fn a_thousand_waiters_cost_one_call() {
    let store = held_store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    assert!(matches!(lookup.cached(&name), Cached::Miss));
    let mut waits = vec![lookup.load(&name)];
    for _ in 0..999 {
        match lookup.cached(&name) {
            Cached::InFlight(wait) => waits.push(wait),
            _ => panic!("not in flight"),
        }
    }
    let waits: Vec<_> = waits.into_iter().map(tokio::spawn).collect();
    yield_now().await;
    store.release(1);
    for wait in waits {
        assert!(matches!(wait.await.unwrap(), Outcome::Found(_)));
    }
    assert_eq!(store.calls(), 1);
}

#[tokio::test]
async fn a_failure_is_shared_and_not_kept() {
    let store = held_store();
    store.put(host("a.test", 1));
    store.fail(true);
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    let waits: Vec<_> = (0..500).map(|_| tokio::spawn(lookup.load(&name))).collect();
    store.release(1);
    for wait in waits {
        assert!(matches!(
            wait.await.unwrap(),
            Outcome::Failed(LookupError::Store(_))
        ));
    }
    assert_eq!(store.calls(), 1);
    store.fail(false);
    store.release(1);
    assert!(matches!(lookup.load(&name).await, Outcome::Found(_)));
}

#[tokio::test]
async fn clients_that_leave_cancel_nothing() {
    let store = held_store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    let first = tokio::spawn(lookup.load(&name));
    let stays = tokio::spawn(lookup.load(&name));
    let leaves: Vec<_> = (0..100).map(|_| tokio::spawn(lookup.load(&name))).collect();
    yield_now().await;
    first.abort();
    leaves.iter().for_each(tokio::task::JoinHandle::abort);
    yield_now().await;
    store.release(1);
    assert!(matches!(stays.await.unwrap(), Outcome::Found(_)));
    assert_eq!(store.calls(), 1);
}

#[tokio::test]
async fn the_observer_stays_with_the_load() {
    let store = held_store();
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    let observed = Arc::new(AtomicBool::new(false));
    let observe = {
        let observed = Arc::clone(&observed);
        move |outcome: &Outcome<_>| {
            assert!(matches!(outcome, Outcome::Absent(_)));
            observed.store(true, Ordering::SeqCst);
        }
    };
    drop(lookup.load_with(&name, observe));
    yield_now().await;
    assert_eq!(Arc::strong_count(&observed), 2, "it is kept");
    let joins = lookup.load_with(&name, |_| panic!("this call starts no load"));
    store.release(1);
    joins.await;
    assert!(observed.load(Ordering::SeqCst));
    assert_eq!(Arc::strong_count(&observed), 1, "and let go");
}

/// Found by review: a client that came between the check against the log and
/// the end of the load was given a removed record.
#[tokio::test]
async fn nobody_joins_a_load_that_was_held_against_the_log() {
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    let remove = {
        let (lookup, store, name) = (lookup.clone(), store.clone(), name.clone());
        move |outcome: &Outcome<_>| {
            assert!(matches!(outcome, Outcome::Found(_)));
            store.remove("a.test");
            lookup.apply(&host_change(2, "a.test"));
            assert!(matches!(lookup.cached(&name), Cached::Miss));
        }
    };
    let revision = lookup.revision();
    let Outcome::Found(removed) = lookup.load_with(&name, remove).await else {
        panic!("not found")
    };
    assert!(!lookup.is_current(&removed, revision), "it asks again");
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
}

#[tokio::test]
async fn nobody_joins_a_load_that_fell_back_on_what_was_cached() {
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    store.fail(true);
    let remove = {
        let (lookup, name) = (lookup.clone(), name.clone());
        move |outcome: &Outcome<_>| {
            assert!(matches!(outcome, Outcome::Found(_)));
            lookup.apply(&host_change(101, "a.test"));
            assert!(matches!(lookup.cached(&name), Cached::Miss));
        }
    };
    assert!(matches!(
        lookup.load_with(&name, remove).await,
        Outcome::Found(_)
    ));
}

#[test]
fn waiters_of_another_runtime_hear_of_a_runtime_that_ends() {
    let store = held_store();
    let lookup = watched(&store);
    let name = HostName::parse("a.test").unwrap();
    let leads = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let waits = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let wait = {
        let _inside = leads.enter();
        lookup.load(&name)
    };
    leads.block_on(yield_now());
    let joined = waits.spawn(wait);
    drop(leads);
    let outcome = waits.block_on(joined).unwrap();
    assert!(
        matches!(outcome, Outcome::Failed(LookupError::BrokenOff)),
        "{outcome:?}"
    );
    assert_eq!(
        Arc::strong_count(&store),
        2,
        "the load holds the store no longer"
    );
}
