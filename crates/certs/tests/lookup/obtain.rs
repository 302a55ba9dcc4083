//! Issuance as a step of the lookup: the contract of `Obtain`.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::{
    Absence, FeedState, Follower, Found, HostName, LookupError, Obtained, OpenKey, Outcome,
};
use sekisho_testkit::{Issuer, Scripted};
use tokio::task::yield_now;
use tokio::time::pause;

use crate::scripted::{
    Names, ask, host, host_change, obtaining, pass, pattern, run_loads, store, watch, watched,
};

const HOUR: u64 = 3600;

/// Makes a record without a credential.
fn bare(pattern: &str) -> Found<OpenKey> {
    let mut bare = host(pattern, 1);
    bare.record.references = Default::default();
    bare.credentials.clear();
    bare
}

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

fn is_failure(outcome: &Outcome<String>) -> bool {
    matches!(
        outcome,
        Outcome::Failed(LookupError::NotObtained(_) | LookupError::NotDue)
    )
}

#[tokio::test]
async fn a_refusal_is_an_absence_until_its_end() {
    pause();
    let issuer = Arc::new(Issuer::new(|_, _| refused(60)));
    let (store, lookup) = issuing(&["bare.test"], &issuer);
    for name in ["bare.test", "none.test"] {
        let absent = pattern(&lookup, name).await;
        assert!(absent.starts_with("Absent"), "{absent}");
    }
    pass_watched(&lookup, 59).await;
    assert_eq!(pattern(&lookup, "bare.test").await, "Absent(NoCredential)");
    assert_eq!(pattern(&lookup, "none.test").await, "Absent(NoHost)");
    assert_eq!((store.calls(), issuer.calls()), (2, 2));
    pass_watched(&lookup, 1).await;
    store.put(host("bare.test", 1));
    assert_eq!(pattern(&lookup, "bare.test").await, "bare.test");
    assert_eq!(pattern(&lookup, "none.test").await, "Absent(NoHost)");
    assert_eq!((store.calls(), issuer.calls()), (4, 3));
}

#[tokio::test]
async fn a_refusal_without_end_holds_while_the_feed_is_healthy() {
    pause();
    let issuer = Arc::new(Issuer::new(|_, _| Obtained::Refused { retry_after: None }));
    let (store, obtained) = issuing(&["bare.test"], &issuer);
    let never = watched(&store);
    for lookup in [&obtained, &never] {
        let before = store.calls();
        assert_eq!(pattern(lookup, "bare.test").await, "Absent(NoCredential)");
        pass_watched(lookup, HOUR).await;
        assert_eq!(pattern(lookup, "bare.test").await, "Absent(NoCredential)");
        assert_eq!(store.calls(), before + 1);
        lookup.apply(&host_change(1, "bare.test"));
        assert_eq!(pattern(lookup, "bare.test").await, "Absent(NoCredential)");
        assert_eq!(store.calls(), before + 2);
    }
    assert_eq!(issuer.calls(), 2);
}

#[tokio::test]
async fn a_failure_makes_one_read_and_one_call_until_its_end() {
    pause();
    let issuer = Arc::new(Issuer::new(|_, _| failed(60)));
    let (store, lookup) = issuing(&["bare.test"], &issuer);
    let first = ask(&lookup, "bare.test").await;
    assert!(
        matches!(&first, Outcome::Failed(LookupError::NotObtained(why)) if &**why == "the test says so"),
        "{first:?}"
    );
    for _ in 1..100 {
        let next = ask(&lookup, "bare.test").await;
        assert!(
            matches!(next, Outcome::Failed(LookupError::NotDue)),
            "{next:?}"
        );
    }
    pass_watched(&lookup, 59).await;
    assert!(is_failure(&ask(&lookup, "bare.test").await));
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
    pass_watched(&lookup, 1).await;
    assert!(is_failure(&ask(&lookup, "bare.test").await));
    assert_eq!((store.calls(), issuer.calls()), (2, 2));
    let counts = lookup.stats().counts;
    assert_eq!((counts.hits.get(), counts.hits_absent.get()), (0, 100));
}

#[tokio::test]
async fn a_change_of_the_record_ends_a_refusal_and_a_failure() {
    for answer in [refused(HOUR), failed(HOUR)] {
        let issuer = Arc::new(Issuer::new(move |_, _| answer.clone()));
        let (store, lookup) = issuing(&[], &issuer);
        for (number, changed) in [(1, "a.w.test"), (2, "*.w.test")] {
            ask(&lookup, "a.w.test").await;
            let calls = (store.calls(), issuer.calls());
            lookup.apply(&host_change(number, "b.w.test"));
            ask(&lookup, "a.w.test").await;
            assert_eq!((store.calls(), issuer.calls()), calls, "another's change");
            lookup.apply(&host_change(number, changed));
            ask(&lookup, "a.w.test").await;
            assert_eq!((store.calls(), issuer.calls()), (calls.0 + 1, calls.1 + 1));
        }
        store.put(host("a.w.test", 1));
        lookup.apply(&host_change(3, "a.w.test"));
        assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
    }
}

#[tokio::test]
async fn without_a_healthy_feed_both_hold_as_long_as_an_absence() {
    pause();
    for answer in [refused(HOUR), failed(HOUR)] {
        let issuer = Arc::new(Issuer::new(move |_, _| answer.clone()));
        let store = store();
        let lookup = obtaining(&store, 8 << 20, issuer.clone());
        ask(&lookup, "a.test").await;
        pass(4).await;
        ask(&lookup, "a.test").await;
        assert_eq!((store.calls(), issuer.calls()), (1, 1));
        pass(2).await;
        ask(&lookup, "a.test").await;
        assert_eq!((store.calls(), issuer.calls()), (2, 2));
    }
}

#[tokio::test]
async fn an_evicted_note_is_obtained_again() {
    let issuer = Arc::new(Issuer::new(|_, _| refused(HOUR)));
    let store = store();
    let lookup = obtaining(&store, 64 << 10, issuer.clone());
    watch(&lookup);
    for number in 0..1000 {
        ask(&lookup, &format!("h{number}.test")).await;
    }
    assert_eq!(issuer.calls(), 1000);
    for number in 0..1000 {
        ask(&lookup, &format!("h{number}.test")).await;
    }
    assert!(issuer.calls() > 1000);
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
async fn a_failure_leaves_no_record_to_fall_back_on() {
    pause();
    let issuer = Arc::new(Issuer::new(|_, _| failed(1)));
    let store = store();
    store.put(host("a.test", 1));
    let lookup = obtaining(&store, 8 << 20, issuer);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    store.put(bare("a.test"));
    pass(121).await;
    assert!(is_failure(&ask(&lookup, "a.test").await));
    store.fail(true);
    pass(2).await;
    let outcome = ask(&lookup, "a.test").await;
    assert!(
        matches!(outcome, Outcome::Failed(LookupError::Store(_))),
        "{outcome:?}"
    );
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
