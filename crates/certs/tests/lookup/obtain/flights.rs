//! Tests of the two flights of a name: the read that everybody shares, and the issuance
//! for those who want a certificate.

use std::sync::Arc;

use sekisho_certs::{
    Absence, Cached, FeedState, Follower, HostName, LookupError, Obtained, Outcome, Wait,
};
use sekisho_testkit::{Issuer, Scripted};
use tokio::task::yield_now;

use super::{HOUR, bare, failed, issuing, refused};
use crate::scripted::{Names, host, host_change, host_version, obtaining, pass, run_loads, store};

fn name() -> HostName {
    HostName::parse("a.test").unwrap()
}

/// Issuance that fails the test if it is called.
fn never() -> Arc<Issuer> {
    Arc::new(Issuer::new(|name, _| panic!("{name} is not wanted")))
}

/// Looks up what is stored, and issues nothing.
async fn ask_stored(lookup: &Arc<Names>) -> Outcome<String> {
    match lookup.cached_stored(&name()) {
        Cached::Hit(outcome) => outcome,
        Cached::InFlight(wait) => wait.stored().await,
        Cached::Miss => lookup.read(&name(), |_| ()).stored().await,
    }
}

/// Joins what is in flight.
fn join(cached: Cached<String>) -> Wait<String> {
    match cached {
        Cached::InFlight(wait) => wait,
        Cached::Hit(outcome) => panic!("cached: {outcome:?}"),
        Cached::Miss => panic!("not in flight"),
    }
}

fn is_found<V>(outcome: &Outcome<V>) -> bool {
    matches!(outcome, Outcome::Found(_))
}

fn is_absent<V>(outcome: &Outcome<V>) -> bool {
    matches!(outcome, Outcome::Absent(_))
}

/// Makes a store with a host without a credential, and a lookup whose issuance stores
/// one when it is released.
fn stores_once_released() -> (Arc<Scripted>, Arc<Names>, Arc<Issuer>) {
    let store = store();
    store.put(bare("a.test"));
    let issuer = Arc::new(Issuer::held({
        let store = Arc::clone(&store);
        move |name, _| {
            store.put(host(name.as_str(), 1));
            Obtained::Stored
        }
    }));
    let lookup = obtaining(&store, 8 << 20, issuer.clone());
    (store, lookup, issuer)
}

#[tokio::test(start_paused = true)]
async fn all_callers_share_one_read() {
    for visitor_first in [true, false] {
        let (store, lookup) = issuing(&[], &never());
        store.put(host("a.test", 1));
        store.hold();
        let (visitor, reader) = match visitor_first {
            true => {
                let visitor = lookup.load(&name());
                (visitor, join(lookup.cached_stored(&name())))
            }
            false => {
                let reader = lookup.read(&name(), |_| ());
                (join(lookup.cached(&name())), reader)
            }
        };
        store.unhold();
        assert!(is_found(&visitor.await));
        assert!(is_found(&reader.stored().await));
        assert_eq!(store.calls(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_visitor_that_joins_a_read_gets_a_certificate() {
    let (store, lookup, issuer) = stores_once_released();
    store.hold();
    let reader = lookup.read(&name(), |outcome| assert!(is_absent(outcome)));
    let visitor = join(lookup.cached(&name()));
    store.unhold();
    assert!(is_absent(&reader.stored().await));
    run_loads().await;
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
    // A caller that reads meanwhile gets the answer of that read.
    assert!(is_absent(&ask_stored(&lookup).await));
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
    issuer.release(1);
    assert!(is_found(&visitor.await));
    assert_eq!((store.calls(), issuer.calls()), (2, 1));
    assert!(is_found(&ask_stored(&lookup).await));
    assert_eq!(lookup.stats().in_flight, 0);
}

#[tokio::test(start_paused = true)]
async fn who_reads_obtains_nothing() {
    let (store, lookup) = issuing(&["a.test"], &never());
    for _ in 0..3 {
        assert!(is_absent(&ask_stored(&lookup).await));
    }
    assert_eq!(store.calls(), 1, "the absence is remembered");
    // Nor does a record that is read again since somebody reads it.
    let lookup = obtaining(&store, 8 << 20, never());
    store.put(host("a.test", 1));
    assert!(is_found(&ask_stored(&lookup).await));
    store.put(bare("a.test"));
    pass(65).await;
    assert!(is_found(&ask_stored(&lookup).await), "it is read aside");
    run_loads().await;
    assert!(is_absent(&ask_stored(&lookup).await));
}

#[tokio::test(start_paused = true)]
async fn an_absence_is_noted_once_for_all() {
    let issuer = Arc::new(Issuer::new(|_, _| refused(HOUR)));
    let (store, lookup) = issuing(&["a.test"], &issuer);
    assert!(is_absent(&lookup.load(&name()).await));
    assert!(is_absent(&ask_stored(&lookup).await));
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
    // Where nothing can be obtained, a visitor needs no more than the read.
    let mut disabled = bare("a.test");
    disabled.record.disabled = true;
    let (store, lookup) = issuing(&[], &never());
    store.put(disabled);
    let reason = Absence::Disabled;
    assert!(matches!(ask_stored(&lookup).await, Outcome::Absent(absent) if absent == reason));
    let cached = lookup.cached(&name());
    assert!(matches!(cached, Cached::Hit(Outcome::Absent(absent)) if absent == reason));
}

#[tokio::test(start_paused = true)]
async fn an_absence_that_was_read_keeps_no_visitor_from_a_certificate() {
    let (store, lookup, issuer) = stores_once_released();
    assert!(is_absent(&ask_stored(&lookup).await));
    assert!(matches!(lookup.cached(&name()), Cached::Miss));
    issuer.release(1);
    assert!(is_found(&lookup.load(&name()).await));
    assert_eq!((store.calls(), issuer.calls()), (3, 1));
}

#[tokio::test(start_paused = true)]
async fn the_first_who_leaves_ends_neither_flight() {
    let (store, lookup, issuer) = stores_once_released();
    store.hold();
    drop(lookup.read(&name(), |_| ()));
    let reader = join(lookup.cached_stored(&name()));
    drop(join(lookup.cached(&name())));
    store.unhold();
    assert!(is_absent(&reader.stored().await));
    run_loads().await;
    // The only visitor left during the read.
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
    let stays = join(lookup.cached(&name()));
    let first = tokio::spawn(join(lookup.cached(&name())));
    yield_now().await;
    first.abort();
    issuer.release(1);
    assert!(is_found(&stays.await));
    assert_eq!((store.calls(), issuer.calls()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn nobody_is_left_without_the_certificate_when_all_have_left() {
    let (_, lookup, issuer) = stores_once_released();
    drop(lookup.load(&name()));
    run_loads().await;
    issuer.release(1);
    run_loads().await;
    assert!(matches!(lookup.cached(&name()), Cached::Hit(found) if is_found(&found)));
}

#[tokio::test(start_paused = true)]
async fn a_change_has_a_shared_read_repeated() {
    let (store, lookup) = issuing(&["a.test"], &never());
    store.hold();
    let reader = lookup.read(&name(), |outcome| assert!(is_found(outcome)));
    let visitor = join(lookup.cached(&name()));
    run_loads().await;
    store.put(host_version("a.test", 1, 3));
    lookup.apply(&host_change(3, "a.test"));
    let late = join(lookup.cached_stored(&name()));
    store.unhold();
    assert!(is_found(&visitor.await));
    assert!(is_found(&reader.stored().await));
    assert!(is_found(&late.stored().await));
    assert_eq!(store.calls(), 2);
}

#[tokio::test(start_paused = true)]
async fn what_is_read_during_an_issuance_is_served_when_that_fails() {
    let issuer = Arc::new(Issuer::held(|_, _| failed(60)));
    let (store, lookup) = issuing(&["a.test"], &issuer);
    let visitor = lookup.load(&name());
    run_loads().await;
    assert!(is_absent(&ask_stored(&lookup).await));
    // Imported: the note of the absence ends, and the issuance goes on.
    store.put(host("a.test", 1));
    lookup.feed_is(FeedState::None);
    pass(6).await;
    assert!(is_found(&ask_stored(&lookup).await));
    assert!(matches!(lookup.cached(&name()), Cached::Hit(found) if is_found(&found)));
    issuer.release(1);
    assert!(is_found(&visitor.await));
    assert!(matches!(lookup.cached(&name()), Cached::Hit(found) if is_found(&found)));
    assert_eq!((store.calls(), issuer.calls()), (2, 1));
}

#[tokio::test(start_paused = true)]
async fn a_failed_issuance_leaves_the_name_absent_for_readers() {
    let issuer = Arc::new(Issuer::new(|_, _| failed(60)));
    let (store, lookup) = issuing(&["a.test"], &issuer);
    store.hold();
    let reader = lookup.read(&name(), |_| ());
    let visitor = join(lookup.cached(&name()));
    store.unhold();
    let visited = visitor.await;
    assert!(matches!(
        visited,
        Outcome::Failed(LookupError::NotObtained(_))
    ));
    assert!(is_absent(&reader.stored().await));
    assert!(is_absent(&ask_stored(&lookup).await));
    let again = lookup.cached(&name());
    assert!(matches!(
        again,
        Cached::Hit(Outcome::Failed(LookupError::NotDue))
    ));
    assert_eq!((store.calls(), issuer.calls()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_read_that_ends_late_leaves_the_note_of_a_failure() {
    let issuer = Arc::new(Issuer::held(|_, _| failed(60)));
    let (store, lookup) = issuing(&["a.test"], &issuer);
    let visitor = lookup.load(&name());
    run_loads().await;
    // The note of the absence ends, and the issuance goes on.
    lookup.feed_is(FeedState::None);
    pass(6).await;
    store.hold();
    let reader = lookup.read(&name(), |_| ());
    run_loads().await;
    issuer.release(1);
    assert!(matches!(visitor.await, Outcome::Failed(_)));
    store.unhold();
    assert!(is_absent(&reader.stored().await));
    let again = lookup.cached(&name());
    assert!(matches!(
        again,
        Cached::Hit(Outcome::Failed(LookupError::NotDue))
    ));
    assert_eq!(issuer.calls(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_issuance_is_read_by_the_read_in_flight() {
    let (store, lookup, issuer) = stores_once_released();
    let visitor = lookup.load(&name());
    run_loads().await;
    pass(6).await;
    store.put(host("a.test", 1));
    store.hold();
    let reader = lookup.read(&name(), |_| ());
    run_loads().await;
    issuer.release(1);
    run_loads().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (2, 1));
    store.unhold();
    assert!(is_found(&visitor.await));
    assert!(is_found(&reader.stored().await));
    assert_eq!((store.calls(), issuer.calls()), (2, 1));
}

#[test]
fn a_runtime_that_ends_breaks_both_flights_off() {
    let (store, lookup, issuer) = stores_once_released();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build()
        .unwrap();
    let visitor = {
        let _inside = runtime.enter();
        lookup.load(&name())
    };
    runtime.block_on(run_loads());
    assert_eq!(issuer.calls(), 1);
    store.put(bare("b.test"));
    store.hold();
    let other = HostName::parse("b.test").unwrap();
    let reader = {
        let _inside = runtime.enter();
        lookup.read(&other, |_| panic!("it has no outcome"))
    };
    runtime.block_on(run_loads());
    assert_eq!(lookup.stats().in_flight, 2);
    drop(runtime);
    assert_eq!(lookup.stats().in_flight, 0);
    let waits = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    for wait in [visitor, reader] {
        let outcome = waits.block_on(wait);
        assert!(
            matches!(outcome, Outcome::Failed(LookupError::BrokenOff)),
            "{outcome:?}"
        );
    }
}
