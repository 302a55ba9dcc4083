//! Issuance as a step of the lookup: the contract of `Obtain`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::{
    Absence, FeedState, Follower, HostName, LookupError, Obtained, Outcome, Progress, Tenant,
};
use sekisho_testkit::{Issuer, Scripted};
use tokio::task::yield_now;
use tokio::time::pause;

use crate::scripted::{
    Names, ask, bare, host, host_change, obtaining, pass, pattern, run_loads, store, watch,
};

mod flights;
mod remembered;

const HOUR: u64 = 3600;

fn refused(seconds: u64) -> Obtained {
    Obtained::Refused {
        retry_after: Some(Duration::from_secs(seconds)),
    }
}

fn failed(seconds: u64) -> Obtained {
    Obtained::Failed {
        why: "the test says so".into(),
        retry_after: Duration::from_secs(seconds),
    }
}

/// Makes a store with these records, and a lookup with a healthy feed whose
/// missing credentials are obtained by `issuer`.
fn issuing(hosts: &[&str], issuer: &Arc<Issuer>) -> (Arc<Scripted>, Arc<Names>) {
    let store = store();
    hosts.iter().for_each(|pattern| store.put(bare(pattern)));
    let lookup = obtaining(&store, 8 << 20, issuer.clone());
    watch(&lookup);
    (store, lookup)
}

/// Lets time pass under a feed that reports each second.
async fn pass_watched(lookup: &Names, seconds: u64) {
    for _ in 0..seconds {
        pass(1).await;
        lookup.feed_is(FeedState::Healthy);
    }
}

#[tokio::test]
async fn it_is_called_with_what_the_store_answered() {
    let seen = Arc::new(Mutex::new(Vec::new()));
    let issuer = Arc::new(Issuer::new({
        let seen = Arc::clone(&seen);
        move |name, record| {
            let pattern = record.map(|record| record.pattern.to_string());
            seen.lock().unwrap().push((name.to_string(), pattern));
            refused(HOUR)
        }
    }));
    let (store, lookup) = issuing(&["bare.test", "*.w.test"], &issuer);
    let mut disabled = bare("off.test");
    disabled.record.disabled = true;
    store.put(disabled);
    for name in ["bare.test", "a.w.test", "none.test", "off.test"] {
        ask(&lookup, name).await;
    }
    let called = |name: &str, pattern: Option<&str>| (name.into(), pattern.map(Into::into));
    assert_eq!(
        *seen.lock().unwrap(),
        [
            called("bare.test", Some("bare.test")),
            called("a.w.test", Some("*.w.test")),
            called("none.test", None),
        ]
    );
}

#[tokio::test]
async fn it_is_not_called_after_a_failure_or_with_a_stale_answer() {
    pause();
    let issuer = Arc::new(Issuer::new(|_, _| refused(HOUR)));
    let (store, lookup) = issuing(&["bare.test"], &issuer);
    store.fail(true);
    let outcome = ask(&lookup, "bare.test").await;
    assert!(
        matches!(outcome, Outcome::Failed(LookupError::Store(_))),
        "{outcome:?}"
    );
    store.fail(false);
    store.answer_stale(true);
    assert_eq!(pattern(&lookup, "bare.test").await, "Absent(NoCredential)");
    assert_eq!(pattern(&lookup, "bare.test").await, "Absent(NoCredential)");
    assert_eq!((store.calls(), issuer.calls()), (2, 0));
    // A healthy feed doesn't prolong what is no answer about issuance.
    store.answer_stale(false);
    pass_watched(&lookup, 1).await;
    assert_eq!(pattern(&lookup, "bare.test").await, "Absent(NoCredential)");
    assert_eq!((store.calls(), issuer.calls()), (3, 1));
}

#[tokio::test]
async fn what_is_stored_is_read_and_served() {
    let store = store();
    let issuer = Arc::new(Issuer::new({
        let store = Arc::clone(&store);
        move |name, _| {
            store.put(host(name.as_str(), 1));
            Obtained::Stored
        }
    }));
    let lookup = obtaining(&store, 8 << 20, issuer.clone());
    for _ in 0..2 {
        assert_eq!(pattern(&lookup, "new.test").await, "new.test");
        assert_eq!((store.calls(), issuer.calls()), (2, 1));
    }
}

#[tokio::test]
async fn what_is_stored_nowhere_ends_the_load() {
    let issuer = Arc::new(Issuer::new(|_, _| Obtained::Stored));
    let (store, lookup) = issuing(&["bare.test"], &issuer);
    let outcome = ask(&lookup, "bare.test").await;
    assert!(
        matches!(outcome, Outcome::Failed(LookupError::BrokenOff)),
        "{outcome:?}"
    );
    assert_eq!((store.calls(), issuer.calls()), (8, 8));
}

#[tokio::test]
async fn a_change_that_overtakes_it_has_the_name_read_again() {
    for answer in [refused(HOUR), failed(HOUR)] {
        let issuer = Arc::new(Issuer::held(move |_, _| answer.clone()));
        let (store, lookup) = issuing(&["a.test", "b.test"], &issuer);
        let load = |name| tokio::spawn(lookup.load(&HostName::parse(name).unwrap()));
        let (imported, edited) = (load("a.test"), load("b.test"));
        run_loads().await;
        assert_eq!((store.calls(), issuer.calls()), (2, 2));
        store.put(host("a.test", 1));
        lookup.apply(&host_change(1, "a.test"));
        lookup.apply(&host_change(2, "b.test"));
        issuer.release(3);
        assert!(matches!(imported.await.unwrap(), Outcome::Found(_)));
        assert!(!matches!(edited.await.unwrap(), Outcome::Found(_)));
        assert_eq!((store.calls(), issuer.calls()), (4, 3));
    }
}

#[tokio::test]
async fn waiters_share_a_call_that_no_client_cancels() {
    let issuer = Arc::new(Issuer::held(|_, _| refused(HOUR)));
    let (store, lookup) = issuing(&["bare.test"], &issuer);
    let name = HostName::parse("bare.test").unwrap();
    let waits: Vec<_> = (0..1000)
        .map(|_| tokio::spawn(lookup.load(&name)))
        .collect();
    run_loads().await;
    waits[1..].iter().for_each(tokio::task::JoinHandle::abort);
    let late = tokio::spawn(lookup.load(&name));
    run_loads().await;
    issuer.release(1);
    let absent = |outcome| matches!(outcome, Outcome::Absent(Absence::NoCredential));
    let first = waits.into_iter().next().unwrap();
    assert!(absent(first.await.unwrap()));
    assert!(absent(late.await.unwrap()));
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
}

#[tokio::test]
async fn who_waits_for_it_hears_so_with_the_tenant() {
    let issuer = Arc::new(Issuer::held(|_, _| refused(HOUR)));
    let (store, lookup) = issuing(&[], &issuer);
    let mut owned = bare("bare.test");
    owned.record.tenant = Tenant::parse("customer").unwrap();
    store.put(owned);
    for (name, owner) in [("bare.test", Some("customer")), ("none.test", None)] {
        let name = HostName::parse(name).unwrap();
        let observed = Arc::new(Mutex::new(Vec::new()));
        let observe = {
            let observed = Arc::clone(&observed);
            move |outcome: &Outcome<_>| observed.lock().unwrap().push(format!("{outcome:?}"))
        };
        let early = tokio::spawn(lookup.load_with(&name, observe).progress());
        run_loads().await;
        let late = tokio::spawn(lookup.load(&name).progress());
        let mut outcomes = Vec::new();
        for waits in [early, late] {
            let Progress::Obtaining { tenant, outcome } = waits.await.unwrap() else {
                panic!("ended before it was released")
            };
            assert_eq!(tenant.as_ref().map(Tenant::as_str), owner);
            outcomes.push(outcome);
        }
        assert_eq!(observed.lock().unwrap().len(), 1, "told before the end");
        assert_eq!(lookup.stats().counts.obtaining.get(), 1);
        issuer.release(1);
        for outcome in outcomes {
            let outcome = format!("{:?}", outcome.await);
            assert_eq!(*observed.lock().unwrap(), [outcome], "and only once");
        }
        assert_eq!(lookup.stats().counts.obtaining.get(), 0);
    }
}

#[tokio::test]
async fn what_it_answers_at_once_nobody_waits_for() {
    let issuer = Arc::new(Issuer::new(|_, _| refused(HOUR)));
    let (_, lookup) = issuing(&["bare.test"], &issuer);
    let name = HostName::parse("bare.test").unwrap();
    let progress = lookup.load(&name).progress().await;
    assert!(matches!(progress, Progress::Ended(Outcome::Absent(_))));
}

#[tokio::test]
async fn it_is_called_for_many_names_at_once() {
    let issuer = Arc::new(Issuer::held(|_, _| refused(HOUR)));
    let (_, lookup) = issuing(&[], &issuer);
    let load = |number| lookup.load(&HostName::parse(&format!("h{number}.test")).unwrap());
    let waits: Vec<_> = (0..2000).map(load).collect();
    while issuer.calls() < 2000 {
        yield_now().await;
    }
    assert_eq!(lookup.stats().in_flight, 2000);
    issuer.release(2000);
    for wait in waits {
        assert!(matches!(wait.await, Outcome::Absent(_)));
    }
}

#[test]
fn it_ends_with_its_runtime() {
    let issuer = Arc::new(Issuer::held(|_, _| refused(HOUR)));
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let (_, lookup) = issuing(&["bare.test"], &issuer);
    let wait = {
        let _inside = runtime.enter();
        lookup.load(&HostName::parse("bare.test").unwrap())
    };
    runtime.block_on(run_loads());
    assert_eq!(issuer.calls(), 1);
    drop(runtime);
    let waits = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let outcome = waits.block_on(wait);
    assert!(
        matches!(outcome, Outcome::Failed(LookupError::BrokenOff)),
        "{outcome:?}"
    );
    assert_eq!(lookup.stats().in_flight, 0);
}
