//! A process that takes over reads first what the old one served the most.

use std::sync::Arc;

use sekisho_certs::store::LogPosition;
use sekisho_certs::{Cached, HostName};
use sekisho_testkit::Issuer;
use tokio::time::pause;

use crate::scripted::{
    LOG, Names, ask, held_store, host, lookup, lookup_with, obtaining, pass, pattern, run_loads,
    store,
};

fn texts(names: &[HostName]) -> Vec<&str> {
    names.iter().map(HostName::as_str).collect()
}

fn is_cached(lookup: &Arc<Names>, name: &str) -> bool {
    let name = HostName::parse(name).unwrap();
    matches!(lookup.cached_stored(&name), Cached::Hit(_))
}

#[tokio::test]
async fn the_hottest_names_come_first() {
    pause();
    let store = store();
    for number in 0..20 {
        store.put(host(&format!("h{number}.test"), number + 1));
    }
    let lookup = lookup(&store);
    for number in 0..20 {
        ask(&lookup, &format!("h{number}.test")).await;
    }
    for _ in 0..10 {
        pass(3).await;
        ask(&lookup, "h7.test").await;
        ask(&lookup, "h7.test").await;
    }
    ask(&lookup, "h3.test").await;
    let hottest = lookup.hottest(3);
    assert_eq!(texts(&hottest)[..2], ["h7.test", "h3.test"]);
    assert_eq!(hottest.len(), 3);
    assert_eq!(lookup.hottest(100).len(), 20);
    assert!(lookup.hottest(0).is_empty());
}

#[tokio::test]
async fn a_record_read_again_stays_hot() {
    pause();
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("b.test", 2));
    let lookup = lookup(&store);
    for _ in 0..5 {
        ask(&lookup, "a.test").await;
        pass(3).await;
    }
    ask(&lookup, "b.test").await;
    lookup.restart(LogPosition {
        log: LOG,
        number: 0,
        mark: 0,
    });
    ask(&lookup, "b.test").await;
    ask(&lookup, "a.test").await;
    assert_eq!(store.calls(), 4);
    assert_eq!(texts(&lookup.hottest(2)), ["a.test", "b.test"]);
}

#[tokio::test]
async fn what_is_named_fills_another_cache() {
    let store = store();
    store.put(host("a.test", 1));
    store.put(host("*.plain.test", 2));
    store.put(host("*.shadowed.test", 3));
    store.put(host("own.shadowed.test", 4));
    let old = lookup(&store);
    let asked = [
        "a.test",
        "x.plain.test",
        "x.shadowed.test",
        "y.shadowed.test",
        "own.shadowed.test",
    ];
    for name in asked {
        ask(&old, name).await;
    }
    let names = old.hottest(100);
    assert!(!names.iter().any(|name| name.as_str().starts_with('*')));
    let new = lookup(&store);
    new.warm(names, 2).await;
    let calls = store.calls();
    for name in asked {
        assert!(is_cached(&new, name), "{name}");
    }
    assert!(is_cached(&new, "z.plain.test"));
    assert_eq!(pattern(&new, "x.shadowed.test").await, "*.shadowed.test");
    assert_eq!(store.calls(), calls);
}

#[tokio::test]
async fn names_below_one_wildcard_take_a_quarter() {
    let store = store();
    store.put(host("*.w.test", 1));
    store.put(host("own.w.test", 2));
    let lookup = lookup(&store);
    for number in 0..50 {
        ask(&lookup, &format!("n{number}.w.test")).await;
    }
    for number in 0..50 {
        store.put(host(&format!("h{number}.test"), number + 3));
        ask(&lookup, &format!("h{number}.test")).await;
    }
    let names = lookup.hottest(40);
    let below = names
        .iter()
        .filter(|name| name.as_str().ends_with(".w.test"));
    assert!((10..=11).contains(&below.count()), "{names:?}");
    assert_eq!(names.len(), 40);
}

#[tokio::test]
async fn warming_is_bounded_issues_nothing_and_ends_when_dropped() {
    let store = held_store();
    let names: Vec<_> = (0..100).map(|n| format!("h{n}.test")).collect();
    for (id, name) in names.iter().enumerate().skip(1) {
        store.put(host(name, id as u64));
    }
    let names = names.iter().map(|name| HostName::parse(name).unwrap());
    let names = names.collect();
    // `h0.test` has no record.
    let never = Issuer::new(|name, _| panic!("{name} is obtained"));
    let lookup = obtaining(&store, 8 << 20, Arc::new(never));
    let warming = Arc::clone(&lookup);
    let task = tokio::spawn(async move { warming.warm(names, 8).await });
    run_loads().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (8, 8));
    store.release(8);
    run_loads().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (16, 8));
    task.abort();
    run_loads().await;
    store.release(1000);
    run_loads().await;
    assert_eq!((store.calls(), lookup.stats().in_flight), (16, 0));
    assert_eq!(lookup.stats().usage.records, 15);
}

#[tokio::test]
async fn a_lookup_that_gave_back_its_cache_still_answers() {
    let store = store();
    for number in 0..3000 {
        store.put(host(&format!("h{number}.test"), number + 1));
    }
    let lookup = lookup_with(&store, 64 << 20);
    for number in 0..3000 {
        ask(&lookup, &format!("h{number}.test")).await;
    }
    assert!(lookup.stats().usage.bytes > 4 << 20);
    lookup.give_back();
    let usage = lookup.stats().usage;
    assert_eq!((usage.records, usage.notes, usage.bytes), (0, 0, 0));
    assert_eq!(lookup.stats().credentials, 0);
    for number in 0..3000 {
        let name = format!("h{number}.test");
        assert_eq!(pattern(&lookup, &name).await, name);
    }
    let usage = lookup.stats().usage;
    assert!(usage.records > 50 && usage.bytes <= 2 << 20, "{usage:?}");
    assert!(is_cached(&lookup, "h2999.test"));
}
