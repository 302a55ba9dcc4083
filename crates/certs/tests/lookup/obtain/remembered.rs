//! Tests of what the lookup remembers of refused and failed issuance.

use std::sync::Arc;

use sekisho_certs::{LookupError, Obtained, Outcome};
use sekisho_testkit::Issuer;
use tokio::time::pause;

use super::{HOUR, bare, failed, issuing, pass_watched, refused};
use crate::scripted::{ask, host, host_change, obtaining, pass, pattern, store, watch, watched};

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
