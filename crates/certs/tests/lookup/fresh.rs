//! Time limits: for plain stores, and while the feed is broken.

use sekisho_certs::{Cached, FeedState, Follower, Found, HostName, Outcome};
use tokio::task::yield_now;
use tokio::time::pause;

use crate::scripted::{ask, host, host_version, lookup, pass, pattern, run_loads, store, watched};

#[tokio::test]
async fn a_plain_store_is_asked_again_in_the_background() {
    pause();
    let store = store();
    store.put(host_version("a.test", 1, 1));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    pass(59).await;
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(store.calls(), 1);
    store.put(host_version("a.test", 2, 2));
    let revision = lookup.revision();
    pass(2).await;
    let Outcome::Found(old) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    assert_eq!(old.host().record.version, 1, "nobody waits");
    assert!(!lookup.is_current(&old, revision));
    run_loads().await;
    let Outcome::Found(new) = ask(&lookup, "a.test").await else {
        panic!("not found")
    };
    assert_eq!((new.host().record.version, store.calls()), (2, 2));
    assert_ne!(lookup.revision(), revision, "connections look again");
}

#[tokio::test]
async fn what_is_long_stale_is_read_first() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    store.remove("a.test");
    pass(121).await;
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
    pass(4).await;
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 2);
    store.put(host("a.test", 1));
    pass(2).await;
    assert_eq!(
        pattern(&lookup, "a.test").await,
        "a.test",
        "absences end after 5 s"
    );
}

#[tokio::test]
async fn while_the_store_fails_what_it_said_is_served_on() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("*.w.test", 2));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    store.fail(true);
    pass(86_400).await;
    let calls = store.calls();
    for _ in 0..100 {
        assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    }
    assert_eq!(
        store.calls(),
        calls + 1,
        "it is not asked by every handshake"
    );
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert!(matches!(ask(&lookup, "new.test").await, Outcome::Failed(_)));
}

/// Found by taking the database away for longer than twice the time of
/// `fresh`: each look that was let through to it held up all who came for the
/// same host.
#[tokio::test]
async fn while_the_store_hangs_nobody_waits_for_what_it_said() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    lookup.feed_is(FeedState::Broken);
    store.fail(true);
    assert!(matches!(ask(&lookup, "b.test").await, Outcome::Failed(_)));
    store.hold();
    for _ in 0..3 {
        pass(86_400).await;
        let name = HostName::parse("a.test").unwrap();
        let known = lookup.cached(&name);
        assert!(matches!(known, Cached::Hit(Outcome::Found(_))));
        yield_now().await;
    }
    assert_eq!(lookup.stats().in_flight, 1, "it is read again aside");
    // The store answers again: a long stale record is read first.
    store.fail(false);
    store.release(10);
    yield_now().await;
    assert_eq!(lookup.stats().in_flight, 0);
    store.remove("a.test");
    pass(86_400).await;
    assert_eq!(pattern(&lookup, "a.test").await, "Absent(NoHost)");
}

/// Found by review: an answer from disk passed for one of the store, and who
/// came for what is long stale waited for the store's deadline again.
#[tokio::test]
async fn while_something_stands_in_for_the_store_nobody_waits() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("b.test", 2));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert!(lookup.stats().store_available);
    lookup.feed_is(FeedState::Broken);
    store.answer_stale(true);
    assert_eq!(pattern(&lookup, "b.test").await, "b.test");
    assert!(!lookup.stats().store_available);
    pass(86_400).await;
    let name = HostName::parse("a.test").unwrap();
    let known = lookup.cached(&name);
    assert!(matches!(known, Cached::Hit(Outcome::Found(_))));
}

#[tokio::test]
async fn a_healthy_feed_needs_no_time_limit_and_a_broken_one_does() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    pass(86_400).await;
    lookup.feed_is(FeedState::Healthy);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 2);
    lookup.feed_is(FeedState::Broken);
    pass(50).await;
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(store.calls(), 2, "the time counts from when it broke");
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 3, "an absence for less time");
    pass(100).await;
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    assert_eq!(store.calls(), 4);
}

/// A feed whose task hangs or panics reports nothing: silence alone must end
/// what `Healthy` vouched for.
#[tokio::test]
async fn a_feed_that_falls_silent_counts_as_broken() {
    pause();
    let store = store();
    let lookup = watched(&store);
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    pass(9).await;
    assert_eq!(lookup.stats().feed, FeedState::Healthy);
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 1);
    pass(2).await;
    assert_eq!(lookup.stats().feed, FeedState::Broken);
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    assert_eq!(
        store.calls(),
        2,
        "absences last 5 s while the feed is broken"
    );
    pass(4).await;
    lookup.feed_is(FeedState::Healthy);
    pass(9).await;
    assert_eq!(pattern(&lookup, "b.test").await, "Absent(NoHost)");
    assert_eq!(store.calls(), 2, "a feed that succeeds vouches again");
}

#[tokio::test]
async fn a_store_that_cannot_list_has_its_aliases_looked_up_again() {
    pause();
    let store = store();
    store.put(Found {
        shadowed: true,
        ..host("*.w.test", 1)
    });
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    assert_eq!(pattern(&lookup, "b.w.test").await, "*.w.test");
    assert_eq!(store.calls(), 2);
    store.put(host("a.w.test", 2));
    pass(50).await;
    // Another name keeps the wildcard itself fresh.
    assert_eq!(pattern(&lookup, "c.w.test").await, "*.w.test");
    pass(20).await;
    assert_eq!(
        pattern(&lookup, "a.w.test").await,
        "*.w.test",
        "looked up aside"
    );
    run_loads().await;
    assert_eq!(pattern(&lookup, "a.w.test").await, "a.w.test");
}

#[tokio::test]
async fn while_the_store_fails_an_alias_is_served_without_asking_each_time() {
    pause();
    let store = store();
    store.put(Found {
        shadowed: true,
        ..host("*.w.test", 1)
    });
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    pass(65).await;
    store.fail(true);
    // Past its freshness it is served at once, and looked up aside.
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    run_loads().await;
    pass(86_400).await;
    let calls = store.calls();
    for _ in 0..100 {
        assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
        yield_now().await;
    }
    assert_eq!(store.calls(), calls + 1);
}

#[tokio::test]
async fn a_removed_wildcard_serves_no_other_name_on() {
    pause();
    let store = store();
    store.put(host("*.w.test", 1));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    store.remove("*.w.test");
    pass(65).await;
    assert_eq!(pattern(&lookup, "a.w.test").await, "*.w.test");
    run_loads().await;
    assert_eq!(pattern(&lookup, "b.w.test").await, "Absent(NoHost)");
}

#[tokio::test]
async fn a_refresh_is_the_one_load_of_its_name() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    let lookup = lookup(&store);
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    pass(65).await;
    store.hold();
    assert_eq!(pattern(&lookup, "a.test").await, "a.test");
    yield_now().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (2, 1));
    pass(86_400).await;
    let waits = tokio::spawn({
        let lookup = lookup.clone();
        async move { pattern(&lookup, "a.test").await }
    });
    yield_now().await;
    store.release(1);
    assert_eq!(waits.await.unwrap(), "a.test");
    assert_eq!(store.calls(), 2, "it joined the refresh");
}
