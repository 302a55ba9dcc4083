//! The lookup of records without a credential, for plain HTTP.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::store::LogPosition;
use sekisho_certs::{HostName, Lookup, LookupSettings, NeverObtain, Obtained, Outcome, Store};
use sekisho_testkit::Issuer;
use tokio::time::pause;

use crate::scripted::{
    LOG, Names, bare, bare_version, held_store, host, host_change, host_version, lookup, obtaining,
    pass, pattern, run_loads, store, watch, watched,
};

const ABSENT: &str = "Absent(NoCredential)";

fn name(text: &str) -> HostName {
    HostName::parse(text).unwrap()
}

/// Asks as plain HTTP does.
async fn ask_any(lookup: &Arc<Names>, asked: &str) -> Outcome<String> {
    match lookup.hit_any(&name(asked)) {
        Some(outcome) => outcome,
        None => lookup.read_any(&name(asked), |_| ()).stored().await,
    }
}

/// The pattern that served it, or what else came out.
async fn plain(lookup: &Arc<Names>, asked: &str) -> String {
    said(&ask_any(lookup, asked).await)
}

fn said(outcome: &Outcome<String>) -> String {
    match outcome {
        Outcome::Found(served) => served.value().clone(),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn handshakes_never_get_a_record_without_a_credential() {
    let store = store();
    for pattern in ["bare.test", "*.w.test", "*.v.test"] {
        store.put(bare(pattern));
    }
    store.put(host("own.w.test", 1));
    let lookup = watched(&store);
    let all = [
        ("bare.test", "bare.test"),
        ("a.w.test", "*.w.test"),
        ("a.v.test", "*.v.test"),
    ];
    for _ in 0..2 {
        for (asked, served) in all {
            assert_eq!(plain(&lookup, asked).await, served);
            assert_eq!(pattern(&lookup, asked).await, ABSENT);
        }
        assert_eq!(store.calls(), 3);
    }
    // Nothing is noted about this name, and the wildcard that is cached answers it.
    assert_eq!(plain(&lookup, "b.v.test").await, "*.v.test");
    assert_eq!(store.calls(), 3);
    assert_eq!(pattern(&lookup, "b.v.test").await, ABSENT);
    assert_eq!(store.calls(), 4);
    assert_eq!(plain(&lookup, "own.w.test").await, "own.w.test");
    assert_eq!(pattern(&lookup, "own.w.test").await, "own.w.test");
    assert_eq!(store.calls(), 5);
}

#[tokio::test]
async fn one_read_serves_both() {
    for plain_first in [true, false] {
        let store = held_store();
        store.put(bare("bare.test"));
        let lookup = watched(&store);
        let name = name("bare.test");
        let (plain, handshake) = if plain_first {
            let plain = lookup.read_any(&name, |outcome| assert_eq!(said(outcome), ABSENT));
            (plain, lookup.load(&name))
        } else {
            let handshake = lookup.load(&name);
            (lookup.read_any(&name, |_| panic!("it joins")), handshake)
        };
        let (plain, handshake) = (tokio::spawn(plain.stored()), tokio::spawn(handshake));
        run_loads().await;
        store.release(1);
        assert_eq!(said(&plain.await.unwrap()), "bare.test");
        assert_eq!(said(&handshake.await.unwrap()), ABSENT);
        assert_eq!(store.calls(), 1);
    }
}

#[tokio::test]
async fn a_certificate_that_comes_and_goes() {
    pause();
    for is_watched in [true, false] {
        let store = store();
        let lookup = if is_watched {
            watched(&store)
        } else {
            lookup(&store)
        };
        for turn in 1..=20 {
            let has_one = turn % 2 == 0;
            store.put(match has_one {
                true => host_version("a.test", 1, turn),
                false => bare_version("a.test", turn),
            });
            let before = lookup.revision();
            if is_watched {
                lookup.apply(&host_change(turn, "a.test"));
            } else {
                pass(300).await;
            }
            // Both orders: either lookup may come first.
            for order in [turn % 3, turn % 3 + 1] {
                if order % 2 == 0 {
                    let want = if has_one { "a.test" } else { ABSENT };
                    assert_eq!(pattern(&lookup, "a.test").await, want, "{turn}");
                    continue;
                }
                let Outcome::Found(served) = ask_any(&lookup, "a.test").await else {
                    panic!("not served in turn {turn}")
                };
                assert_eq!(served.is_certified(), has_one);
                assert_eq!(served.host().record.version, turn);
            }
            let is_seen = lookup.revision() > before;
            assert!(is_seen || turn == 1, "no new revision in turn {turn}");
        }
    }
}

#[tokio::test]
async fn a_wildcard_without_a_credential_answers_all_below_with_one_call() {
    let store = store();
    store.put(bare("*.w.test"));
    let lookup = watched(&store);
    for number in 0..100 {
        let asked = format!("h{number}.w.test");
        assert_eq!(plain(&lookup, &asked).await, "*.w.test");
    }
    let usage = lookup.stats().usage;
    assert_eq!((store.calls(), usage.records, usage.notes), (1, 1, 1));
    // Below a shadowed one, each name is read once.
    store.put(host("own.w.test", 1));
    lookup.apply(&host_change(2, "own.w.test"));
    for _ in 0..2 {
        assert_eq!(plain(&lookup, "h0.w.test").await, "*.w.test");
        for number in 0..10 {
            let asked = format!("s{number}.w.test");
            assert_eq!(plain(&lookup, &asked).await, "*.w.test");
        }
        assert_eq!(store.calls(), 11);
    }
    assert_eq!(plain(&lookup, "own.w.test").await, "own.w.test");
    // A name that gets a record of its own is not answered by the wildcard any more.
    store.put(bare_version("s0.w.test", 3));
    lookup.apply(&host_change(3, "s0.w.test"));
    assert_eq!(plain(&lookup, "s0.w.test").await, "s0.w.test");
    store.put(bare_version("*.w.test", 4));
    lookup.apply(&host_change(4, "*.w.test"));
    let Outcome::Found(served) = ask_any(&lookup, "s1.w.test").await else {
        panic!("not found")
    };
    assert_eq!(served.host().record.version, 4);
    assert_eq!(plain(&lookup, "s0.w.test").await, "s0.w.test");
}

#[tokio::test]
async fn an_issuance_that_fails_leaves_the_plain_record() {
    let issuer = Arc::new(Issuer::held(|_, _| Obtained::Failed {
        why: "the test says so".into(),
        retry_after: Duration::from_secs(3600),
    }));
    let store = store();
    store.put(bare("bare.test"));
    store.put(bare("*.w.test"));
    store.put(host("own.w.test", 1));
    let lookup = obtaining(&store, 8 << 20, issuer.clone());
    watch(&lookup);
    let all = [("bare.test", "bare.test"), ("a.w.test", "*.w.test")];
    for (asked, served) in all {
        let handshake = tokio::spawn(lookup.load(&name(asked)));
        run_loads().await;
        // The answer does not wait for the certificate.
        assert_eq!(plain(&lookup, asked).await, served);
        let revision = lookup.revision();
        issuer.release(1);
        assert!(said(&handshake.await.unwrap()).contains("the test says so"));
        assert_eq!(plain(&lookup, asked).await, served);
        assert_eq!(lookup.revision(), revision, "nothing else is served");
        assert!(pattern(&lookup, asked).await.contains("not due yet"));
    }
    assert_eq!((store.calls(), issuer.calls()), (2, 2));
}

#[tokio::test]
async fn a_plain_caller_waits_for_no_certificate() {
    let store = held_store();
    store.put(bare("bare.test"));
    let issuer = Arc::new(Issuer::held(|_, _| Obtained::Refused { retry_after: None }));
    let lookup = obtaining(&store, 8 << 20, issuer.clone());
    let bare = name("bare.test");
    let handshake = tokio::spawn(lookup.load(&bare));
    let joins = tokio::spawn(lookup.read_any(&bare, |_| panic!("it joins")).stored());
    let nobody = tokio::spawn(lookup.load(&name("none.test")));
    let unknown = tokio::spawn(lookup.read_any(&name("none.test"), |_| ()).stored());
    run_loads().await;
    store.release(2);
    assert_eq!(said(&joins.await.unwrap()), "bare.test");
    // Its certificate is being obtained.
    assert_eq!(said(&unknown.await.unwrap()), ABSENT);
    issuer.release(2);
    assert_eq!(said(&handshake.await.unwrap()), ABSENT);
    assert_eq!(said(&nobody.await.unwrap()), "Absent(NoHost)");
    assert_eq!(issuer.calls(), 2);
}

#[tokio::test]
async fn a_store_that_fails_serves_no_new_one() {
    pause();
    let store = store();
    store.put(bare("bare.test"));
    store.put(bare("*.w.test"));
    let lookup = watched(&store);
    store.fail(true);
    for asked in ["bare.test", "a.w.test"] {
        let outcome = plain(&lookup, asked).await;
        assert!(outcome.starts_with("Failed"), "{outcome}");
    }
    store.fail(false);
    let all = [("bare.test", "bare.test"), ("a.w.test", "*.w.test")];
    for (asked, served) in all {
        assert_eq!(plain(&lookup, asked).await, served);
    }
    lookup.restart(LogPosition {
        log: LOG,
        number: 100,
        mark: 0,
    });
    store.fail(true);
    let calls = store.calls();
    // Cached records are served on, and the store is asked once a second.
    for _ in 0..5 {
        for (asked, served) in all {
            assert_eq!(plain(&lookup, asked).await, served);
        }
    }
    assert_eq!(store.calls(), calls + 2);
    let outcome = pattern(&lookup, "bare.test").await;
    assert!(outcome.starts_with("Failed"), "{outcome}");
    // A record that changed meanwhile is not served on.
    lookup.apply(&host_change(101, "bare.test"));
    let outcome = plain(&lookup, "bare.test").await;
    assert!(outcome.starts_with("Failed"), "{outcome}");
}

#[tokio::test]
async fn what_is_removed_or_disabled_is_served_to_nobody() {
    let store = store();
    let lookup = watched(&store);
    let mut disabled = bare_version("bare.test", 2);
    disabled.record.disabled = true;
    let absences = [
        (Some(disabled), "Absent(Disabled)"),
        (None, "Absent(NoHost)"),
    ];
    for (number, (record, absence)) in (1..).step_by(2).zip(absences) {
        store.put(bare_version("bare.test", number));
        lookup.apply(&host_change(number, "bare.test"));
        assert_eq!(plain(&lookup, "bare.test").await, "bare.test");
        match record {
            Some(record) => store.put(record),
            None => store.remove("bare.test"),
        }
        lookup.apply(&host_change(number + 1, "bare.test"));
        for _ in 0..2 {
            assert_eq!(plain(&lookup, "bare.test").await, absence);
            assert_eq!(pattern(&lookup, "bare.test").await, absence);
        }
    }
}

/// Handshakes are answered as if the record could be served.
#[tokio::test]
async fn a_record_that_can_not_be_published_is_absent() {
    let store = store();
    store.put(bare("bare.test"));
    let settings = LookupSettings {
        memory: 8 << 20,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
    };
    let asked: Arc<dyn Store> = store.clone();
    let lookup: Arc<Names> = Lookup::new(asked, &settings, Arc::new(NeverObtain), |_| {
        Err("the test says so".into())
    });
    watch(&lookup);
    for _ in 0..2 {
        assert_eq!(plain(&lookup, "bare.test").await, ABSENT);
        assert_eq!(pattern(&lookup, "bare.test").await, ABSENT);
        assert_eq!(store.calls(), 1);
    }
    lookup.apply(&host_change(2, "bare.test"));
    assert_eq!(plain(&lookup, "bare.test").await, ABSENT);
    assert_eq!(store.calls(), 2);
}
