//! A catalog that went back to an earlier state under the same log.

use super::*;

/// Numbers in Redis are beyond those of the catalog, and are used again.
async fn behind_redis(bench: &Bench, one: &Server) {
    let restore = bench.memory.saved();
    for number in 2..10 {
        bench.put(&format!("h{number}.example"), number).await;
    }
    one.follow().await;
    one.fill("a.example").await;
    one.fill("h5.example").await;
    assert_eq!(one.serves("a.example").await, Some(1));
    assert!(one.hits() > 0);
    restore();
    bench.replace(1, 20).await;
}

#[tokio::test]
async fn what_a_restored_catalog_replaces_is_not_served() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let one = bench.server().await;
    behind_redis(&bench, &one).await;
    one.follow().await;
    assert_eq!(one.serves("a.example").await, Some(20));
    assert!(one.find("h5.example").await.is_none());
    one.usable().await;
    assert!(one.find("h5.example").await.is_none());
    // Both have one past again from here on.
    let before = one.hits();
    one.fill("a.example").await;
    assert_eq!(one.serves("a.example").await, Some(20));
    assert!(one.hits() > before);
    bench.replace(1, 21).await;
    one.follow().await;
    assert_eq!(one.serves("a.example").await, Some(21));
}

/// Nothing that it has seen tells it; Redis is further than the log.
#[tokio::test]
async fn a_server_that_starts_on_a_restored_catalog_sees_it() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let one = bench.server().await;
    behind_redis(&bench, &one).await;
    let two = bench.server().await;
    assert_eq!(two.serves("a.example").await, Some(20));
    assert!(two.find("h5.example").await.is_none());
    // To the first server the catalog is older than what it has seen, until its
    // feed finds that the log went back.
    assert!(one.answer("a.example").await.is_err());
    one.follow().await;
    assert_eq!(one.serves("a.example").await, Some(20));
}

/// A server that was not as far as Redis sees nothing go back.
#[tokio::test]
async fn one_that_lagged_sees_it_after_the_outage() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    behind_redis(&bench, &one).await;
    two.catalog.fail(true);
    two.follow_in_vain().await;
    two.catalog.fail(false);
    two.follow().await;
    assert_eq!(two.serves("a.example").await, Some(20));
    two.usable().await;
    assert_eq!(two.serves("a.example").await, Some(20));
}

/// The log may have come as far again before the resync looks.
#[tokio::test]
async fn numbers_that_are_used_again_are_not_trusted() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let one = bench.server().await;
    behind_redis(&bench, &one).await;
    one.cache
        .start_over(bench.memory.head().await.unwrap())
        .await;
    for number in 2..20 {
        bench.put(&format!("g{number}.example"), number).await;
    }
    one.follow().await;
    one.usable().await;
    assert_eq!(one.serves("a.example").await, Some(20));
    assert!(one.find("h5.example").await.is_none());
}

/// A load from before may answer after the log went back.
#[tokio::test]
async fn a_fill_of_the_other_past_is_refused() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let one = bench.server().await;
    let found = bench.sealed("a.example").await;
    behind_redis(&bench, &one).await;
    let begun = one.position().unwrap();
    one.follow().await;
    one.usable().await;
    one.cache.fill(begun, &found);
    until("the fill ends", || one.counts().refused.get() == 1).await;
    assert_eq!(one.serves("a.example").await, Some(20));
}

/// A catalog that fails says nothing against a Redis that was right.
#[tokio::test]
async fn redis_comes_back_while_the_catalog_is_down() {
    let mut bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    server.fill("a.example").await;
    bench.redis.cli(&["save"]);
    server.catalog.fail(true);
    bench.redis.restart();
    let before = server.hits();
    let begun = Instant::now();
    while server.hits() == before {
        assert!(begun.elapsed() < Duration::from_secs(20));
        if let Ok(answer) = server.answer("a.example").await {
            assert!(matches!(answer, Answer { found: Some(_), .. }));
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}
