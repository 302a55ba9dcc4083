//! Loads in the background that keep cached records fresh.

use sekisho_certs::{FeedState, Follower, HostName, Outcome};
use tokio::task::yield_now;
use tokio::time::pause;

use crate::scripted::{ask, held_store, host, lookup, pass, pattern, run_loads, store, watched};

/// With a broken feed every cached record is due at once. A slow store must
/// keep most of its room for names that nothing is cached for.
#[tokio::test]
async fn refreshes_have_a_share_of_their_own() {
    pause();
    let store = store();
    let names: Vec<_> = (0..100).map(|n| format!("h{n}.test")).collect();
    for (id, name) in names.iter().enumerate() {
        store.put(host(name, id as u64));
    }
    let lookup = watched(&store);
    for name in &names {
        assert_eq!(&pattern(&lookup, name).await, name);
    }
    lookup.feed_is(FeedState::Broken);
    pass(65).await;
    store.hold();
    for _ in 0..2 {
        for name in &names {
            assert_eq!(&pattern(&lookup, name).await, name, "nobody waits");
        }
        run_loads().await;
        assert_eq!(lookup.stats().in_flight, 32);
    }
    // Places that end go to others.
    store.release(32);
    run_loads().await;
    assert_eq!(lookup.stats().in_flight, 0);
    for name in &names {
        assert_eq!(&pattern(&lookup, name).await, name);
    }
    run_loads().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (164, 32));
}

/// A refresh is begun for the name that was asked for. Where that name turned
/// out to have a record of its own, the wildcard above was never refreshed.
#[tokio::test]
async fn a_refresh_that_ends_elsewhere_leaves_its_record_to_the_next() {
    pause();
    let store = store();
    store.put(host("*.w.test", 1));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    pass(65).await;
    store.put(host("a.w.test", 2));
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    run_loads().await;
    assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
    assert_eq!(store.calls(), 2);
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    run_loads().await;
    assert_eq!(
        store.calls(),
        3,
        "the wildcard is refreshed by another name"
    );
}

#[tokio::test]
async fn a_refresh_that_meets_a_load_leaves_its_record_to_the_next() {
    pause();
    let store = held_store();
    store.put(host("*.w.test", 1));
    let lookup = lookup(&store);
    let wildcard = tokio::spawn(lookup.load(&HostName::parse("b.w.test").unwrap()));
    yield_now().await;
    store.put(host("a.w.test", 2));
    let exact = tokio::spawn(lookup.load(&HostName::parse("a.w.test").unwrap()));
    yield_now().await;
    store.release(1);
    assert!(matches!(wildcard.await.unwrap(), Outcome::Found(_)));
    pass(65).await;
    // The wildcard is cached and due, and a load of this name is in flight.
    assert!(matches!(ask(&lookup, "a.w.test").await, Outcome::Found(_)));
    assert_eq!(lookup.stats().in_flight, 1);
    store.release(1);
    assert!(matches!(exact.await.unwrap(), Outcome::Found(_)));
    assert_eq!(pattern(&lookup, "c.w.test").await, "*.w.test");
    run_loads().await;
    assert_eq!(
        store.calls(),
        3,
        "the wildcard is refreshed by another name"
    );
}
