//! Loads and changes that overtake each other.

use super::*;

/// Begins a load of `a.example` that has read, and does not answer yet.
async fn paused(server: &Server) -> tokio::task::JoinHandle<Result<Answer<OpenKey>>> {
    let gate = &server.catalog.gate;
    gate.forget_permits(gate.available_permits());
    let before = server.catalog.finds();
    let tiers = Arc::clone(&server.tiers);
    let load = tokio::spawn(async move {
        let name = HostName::parse("a.example").unwrap();
        tiers.find(&name).await
    });
    until("the load has read", || server.catalog.finds() > before).await;
    // Reading a catalog in memory takes no step of its own.
    tokio::task::yield_now().await;
    load
}

/// Lets it answer, and waits for what becomes of its fill.
async fn resumed(server: &Server, load: tokio::task::JoinHandle<Result<Answer<OpenKey>>>) {
    let counts = server.counts();
    let ended = || fills(&counts);
    let before = ended();
    server.catalog.gate.add_permits(1000);
    load.await.unwrap().unwrap();
    until("the fill ends", || ended() > before).await;
}

#[tokio::test]
async fn a_load_paused_across_a_change_leaves_nothing() {
    for followed_by_other in [false, true] {
        let bench = Bench::new();
        bench.put("a.example", 1).await;
        let (one, two) = (bench.server().await, bench.server().await);
        let load = paused(&one).await;
        bench.replace(1, 2).await;
        // Either server hears of it first.
        let first = if followed_by_other { &two } else { &one };
        first.follow().await;
        resumed(&one, load).await;
        assert_eq!(one.counts().refused.get(), 1);
        assert_eq!(bench.entries(), 0);
        one.follow().await;
        two.follow().await;
        for server in [&one, &two] {
            assert_eq!(server.serves("a.example").await, Some(2));
        }
    }
}

/// The change is not told yet when the fill arrives: it is told later.
#[tokio::test]
async fn a_fill_between_a_change_and_its_telling_is_dropped_by_it() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    let load = paused(&one).await;
    bench.replace(1, 2).await;
    resumed(&one, load).await;
    assert_eq!(one.counts().stored.get(), 1);
    // Until a server has heard of it, it may serve the old one, as its memory
    // does.
    assert_eq!(two.serves("a.example").await, Some(1));
    two.follow().await;
    assert_eq!(bench.entries(), 1, "the record");
    assert_eq!(two.serves("a.example").await, Some(2));
    one.follow().await;
    assert_eq!(one.serves("a.example").await, Some(2));
}

/// Takes nothing newer than the number in Redis: Redis holds one
/// state, not two halves.
#[tokio::test]
async fn what_is_newer_than_redis_is_not_filled() {
    let bench = Bench::new();
    let server = bench.server().await;
    bench.put("a.example", 1).await;
    server.fill("a.example").await;
    assert_eq!(server.counts().refused.get(), 1);
    server.follow().await;
    server.fill("a.example").await;
    assert_eq!(server.counts().stored.get(), 1);
}

#[tokio::test]
async fn each_kind_of_change_is_seen_once_it_was_told() {
    let bench = Bench::new();
    for round in 0..20 {
        let (one, two) = (bench.server().await, bench.server().await);
        let (old, new) = (2 * round + 1, 2 * round + 2);
        bench.put("a.example", old).await;
        one.follow().await;
        two.follow().await;
        one.fill("a.example").await;
        assert_eq!(two.serves("a.example").await, Some(old));
        match round % 3 {
            0 => bench.replace(old, new).await,
            1 => bench.put("a.example", new).await,
            _ => bench.remove("a.example").await,
        }
        one.follow().await;
        two.follow().await;
        let wanted = (round % 3 != 2).then_some(new);
        assert_eq!(one.serves("a.example").await, wanted);
        assert_eq!(two.serves("a.example").await, wanted);
    }
}

/// A server that hears late asks a Redis that is further: it is answered from
/// there, which is newer than what it has seen.
#[tokio::test]
async fn one_that_lags_reads_what_is_newer() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let (one, two) = (bench.server().await, bench.server().await);
    one.fill("a.example").await;
    bench.replace(1, 2).await;
    one.follow().await;
    one.fill("a.example").await;
    assert_eq!(two.serves("a.example").await, Some(2));
    assert_eq!(two.catalog.finds(), 0);
}

#[tokio::test]
async fn a_writer_reads_its_own_write_at_once() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    for number in 2..12 {
        server.fill("a.example").await;
        let put = Write::PutCredential(credential(1, number), Precondition::Any);
        server.sealer.write(vec![put]).await.unwrap();
        let (counts, before) = (server.counts(), fills(&server.counts()));
        assert_eq!(server.serves("a.example").await, Some(number));
        // Later than the feed it would be stored.
        until("the fill is refused", || fills(&counts) > before).await;
        // The feed brings it there: no other lookup does without Redis.
        assert!(server.counts().is_usable());
        server.follow().await;
        assert!(server.counts().is_usable());
    }
    assert_eq!(server.counts().passed_over.get(), 10);
}

/// More changes than the state remembers: older loads don't fill, later ones
/// do, and the state stays bounded.
#[tokio::test]
async fn a_flood_of_changes_is_forgotten_safely() {
    let bench = Bench::new();
    bench.put("a.example", 1).await;
    let server = bench.server().await;
    let load = paused(&server).await;
    for batch in 0..40_u64 {
        let hosts = (0..500).map(|one| record(&format!("h{one}.b{batch}.example"), &[]));
        bench.write(hosts.map(put_host).collect()).await;
        server.follow().await;
    }
    server.usable().await;
    let key = bench.redis.cli(&["keys", "sekisho:*:state"]);
    let subjects: usize = bench.redis.cli(&["zcard", &key]).parse().unwrap();
    assert!((16_000..=16_400).contains(&subjects), "{subjects}");
    resumed(&server, load).await;
    assert_eq!(server.counts().refused.get(), 1);
    server.fill("a.example").await;
    assert_eq!(server.counts().stored.get(), 1);
}
