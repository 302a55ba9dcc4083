//! The cache's bounds, seen through the lookup.

use crate::scripted::{ask, host, lookup_with, store};

#[tokio::test]
async fn the_bound_holds_and_a_scan_does_not_wash_out_what_is_used() {
    let store = store();
    for number in 0..6000 {
        store.put(host(&format!("h{number}.test"), number + 1));
    }
    let lookup = lookup_with(&store, 2 << 20);
    for _ in 0..5 {
        for number in 0..100 {
            ask(&lookup, &format!("h{number}.test")).await;
        }
    }
    for number in 100..6000 {
        ask(&lookup, &format!("h{number}.test")).await;
        let usage = lookup.stats().usage;
        assert!(
            usage.bytes <= usage.capacity && usage.capacity <= 2 << 20,
            "{usage:?}"
        );
    }
    assert!(lookup.stats().usage.records < 2000, "{:?}", lookup.stats());
    assert!(lookup.stats().credentials <= lookup.stats().usage.records);
    let calls = store.calls();
    for number in 0..100 {
        ask(&lookup, &format!("h{number}.test")).await;
    }
    let lost = store.calls() - calls;
    assert!(lost <= 10, "{lost} of 100 hosts in use were lost to a scan");
}

#[tokio::test]
async fn absences_are_bounded_and_take_no_record_s_place() {
    let store = store();
    store.put(host("a.test", 1));
    let lookup = lookup_with(&store, 2 << 20);
    ask(&lookup, "a.test").await;
    for number in 0..50_000 {
        ask(&lookup, &format!("nobody-{number}.test")).await;
    }
    let usage = lookup.stats().usage;
    assert!(usage.notes > 100 && usage.notes < 2000, "{usage:?}");
    assert_eq!(usage.records, 1);
    let calls = store.calls();
    ask(&lookup, "a.test").await;
    assert_eq!(store.calls(), calls);
}
