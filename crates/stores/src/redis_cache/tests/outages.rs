//! A Redis that is gone, stuck, emptied or set back; a catalog that is gone.

use super::*;

#[tokio::test]
async fn redis_that_is_down_at_the_start_is_used_when_it_comes() {
    let mut bench = Bench::new();
    bench.put("a.example", 1).await;
    bench.redis.kill();
    let server = bench.started(&PATIENT).await;
    server.follow().await;
    assert_eq!(server.serves("a.example").await, Some(1));
    assert!(!server.counts().is_usable());
    bench.redis.restart();
    server.usable().await;
    server.fill("a.example").await;
    assert_eq!(server.serves("a.example").await, Some(1));
    assert_eq!(server.hits(), 1);
}

#[tokio::test]
async fn redis_that_stands_still_is_passed_over() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.started(&Waits::default()).await;
    server.follow().await;
    server.usable().await;
    bench.redis.pause();
    assert_eq!(server.serves("a.example").await, Some(1));
    assert!(server.counts().passed_over.get() >= 1);
    assert!(!server.counts().is_usable());
    // By now it is known: no call waits for it.
    let begun = Instant::now();
    for _ in 0..200 {
        assert_eq!(server.serves("a.example").await, Some(1));
    }
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(server.hits(), 0);
    bench.replace(1, 2).await;
    let begun = Instant::now();
    server.follow().await;
    assert!(begun.elapsed() < Duration::from_secs(5));
    assert_eq!(server.serves("a.example").await, Some(2));
    bench.redis.resume();
    until("it is used again", || server.counts().is_usable()).await;
    assert_eq!(server.serves("a.example").await, Some(2));
}

/// Changes of that time are carried in before anything is read again.
#[tokio::test]
async fn changes_while_redis_stands_still_are_not_lost() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let waits = Waits {
        advance: Duration::from_millis(40),
        ..PATIENT
    };
    let server = bench.started(&waits).await;
    server.follow().await;
    server.usable().await;
    server.fill("a.example").await;
    bench.redis.pause();
    bench.replace(1, 2).await;
    server.follow().await;
    bench.redis.resume();
    server.usable().await;
    assert_eq!(server.serves("a.example").await, Some(2));
    server.follow().await;
    until("the record alone is left, or both are new", || {
        bench.entries() > 0
    })
    .await;
    assert_eq!(server.serves("a.example").await, Some(2));
}

#[tokio::test]
async fn redis_that_was_emptied_begins_anew() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    one.fill("a.example").await;
    let load_began = one.position().unwrap();
    let found = bench.sealed("a.example").await;
    bench.replace(1, 2).await;
    one.follow().await;
    bench.redis.cli(&["flushall"]);
    assert_eq!(one.serves("a.example").await, Some(2));
    one.usable().await;
    // A load from before: what it would overwrite is no longer known.
    let entry = Entry::of(&found).unwrap();
    let filled = one.cache.shared.server.fill(&load_began, &entry);
    assert!(!filled.await.unwrap());
    two.follow().await;
    two.usable().await;
    one.fill("a.example").await;
    assert_eq!(two.serves("a.example").await, Some(2));
    assert_eq!(two.hits(), 1);
}

/// The state alone is evicted: values of the old generation are never read.
#[tokio::test]
async fn a_state_that_is_evicted_takes_everything_with_it() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    bench.replace(1, 2).await;
    let key = bench.redis.cli(&["keys", "sekisho:*:state"]);
    bench.redis.cli(&["del", &key]);
    server.follow().await;
    server.usable().await;
    assert_eq!(bench.entries(), 2, "they still lie there");
    assert_eq!(server.serves("a.example").await, Some(2));
    assert_eq!(server.hits(), 0);
}

#[tokio::test]
async fn redis_that_went_back_in_time_serves_nothing_old() {
    let mut bench = Bench::new();
    bench.put("a.example", 1).await;
    bench.put("b.example", 3).await;
    let one = bench.server().await;
    one.fill("a.example").await;
    one.fill("b.example").await;
    bench.redis.cli(&["save"]);
    bench.replace(1, 2).await;
    one.follow().await;
    one.fill("a.example").await;
    bench.redis.restart();
    assert_eq!(bench.entries(), 4, "it came back as it was saved");
    // Before and after it is used again, by one that saw the change and by
    // one that never saw anything.
    assert_eq!(one.serves("a.example").await, Some(2));
    let two = bench.server().await;
    for server in [&one, &two] {
        server.follow().await;
        until("it is used again", || server.counts().is_usable()).await;
        assert_eq!(server.serves("a.example").await, Some(2));
    }
    // Unchanged values are still there.
    let finds = two.catalog.finds();
    assert_eq!(two.serves("b.example").await, Some(3));
    assert_eq!(two.catalog.finds(), finds);
}

#[tokio::test]
async fn a_catalog_that_is_down_is_answered_for() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    one.fill("a.example").await;
    two.catalog.fail(true);
    // The feed has not noticed yet.
    assert_eq!(two.serves("a.example").await, Some(1));
    two.follow_in_vain().await;
    // Redis was refilled: the catalog is asked first, and fails.
    assert_eq!(two.serves("a.example").await, Some(1));
    assert_eq!((two.hits(), two.catalog.finds()), (2, 1));
    assert!(two.answer("a.example").await.unwrap().is_stale);
    let error = two.answer("b.example").await.unwrap_err();
    assert!(error.is_retryable(), "{error}");
    // While the feed is broken and the catalog answers, it is preferred.
    two.catalog.fail(false);
    bench.replace(1, 2).await;
    two.cache.feed_is(FeedState::Broken);
    assert_eq!(two.serves("a.example").await, Some(2));
}

/// Never serves what this server has seen replaced, whoever is down.
#[tokio::test]
async fn both_down_in_turn_brings_back_nothing_old() {
    let mut bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    bench.redis.cli(&["save"]);
    bench.replace(1, 2).await;
    server.follow().await;
    bench.redis.restart();
    server.catalog.fail(true);
    for _ in 0..50 {
        let answer = server.answer("a.example").await;
        assert!(answer.is_err(), "{answer:?}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    server.catalog.fail(false);
    server.follow().await;
    server.usable().await;
    // The breaker lets the catalog be asked again.
    let begun = Instant::now();
    while server.answer("a.example").await.is_err() {
        assert!(begun.elapsed() < Duration::from_secs(20));
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.serves("a.example").await, Some(2));
}

/// More changes than the log keeps: it begins anew.
#[tokio::test]
async fn a_gap_begins_anew() {
    let mut bench = Bench::new();
    bench.memory = Arc::new(Memory::keeping(Clock::System, 10));
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    bench.redis.kill();
    bench.replace(1, 2).await;
    for number in 0..30 {
        let host = record(&format!("h{number}.example"), &[]);
        bench.write(vec![put_host(host)]).await;
    }
    server.follow().await;
    bench.redis.restart();
    server.usable().await;
    assert_eq!(server.serves("a.example").await, Some(2));
    server.follow().await;
    server.usable().await;
    server.fill("a.example").await;
    assert_eq!(server.serves("a.example").await, Some(2));
    assert_eq!(server.hits(), 1);
}
