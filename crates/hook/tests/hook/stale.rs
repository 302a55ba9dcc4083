//! `tls:cached` past its limit: what was kept before is served on.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sekisho_hook::{Choice, RegionUse, Source};
use tokio::time::{Instant, advance};

use crate::cached::redis_hook;
use crate::fake::{ask, hello, hello_of, hook_with, made, report};

#[tokio::test(start_paused = true)]
async fn what_was_there_is_served_while_the_function_fails() {
    let (hook, world) = redis_hook();
    ask(&hook, "shop.example").await;
    *world.down.lock().unwrap() = true;
    advance(Duration::from_secs(100)).await;
    for _ in 0..3 {
        let (answer, report) = report(&hook, "shop.example").await;
        assert_eq!(made(&answer).subjects, ["shop"]);
        assert_eq!(answer.source, Source::Stale);
        assert_eq!(report.region[0].1, RegionUse::Stale);
        assert!(answer.until <= Instant::now() + Duration::from_secs(1));
    }
    assert_eq!(world.commands.load(SeqCst), 2, "the failure is remembered");
    *world.down.lock().unwrap() = false;
    advance(Duration::from_secs(2)).await;
    world.values.lock().unwrap().clear();
    let answer = ask(&hook, "shop.example").await;
    assert!(
        matches!(answer.choice, Choice::Refuse(112)),
        "gone is gone: {:?}",
        answer.choice
    );
}

#[tokio::test(start_paused = true)]
async fn stale_is_served_in_time_while_a_store_hangs() {
    let script = r#"function handshake(tls)
        tls:cached("key", 10, function()
            if cache:get("hang") then redis("redis://here"):get("hang") end
            tls:use("a.example")
        end)
        cache:set("hang", true, 1000)
    end"#;
    let (hook, _) = hook_with(script, |_| {});
    ask(&hook, "shop.example").await;
    advance(Duration::from_secs(20)).await;
    let answer = ask(&hook, "shop.example").await;
    assert_eq!(answer.source, Source::Stale, "{:?}", answer.choice);
}

/// A store that hangs delays nobody for long whose host was seen, and has no more runs
/// waiting than there are permits.
#[tokio::test(start_paused = true)]
async fn those_who_join_a_load_get_what_was_there_before() {
    let script = "function handshake(tls)
        tls:cached('key', 10, function()
            if cache:get('hang') then redis('redis://here'):get('hang') end
            tls:use('a.example')
        end)
        cache:set('hang', true, 1000)
    end";
    let (hook, _) = hook_with(script, |settings| settings.waiting_per_prefix = 4);
    let hook = Arc::new(hook);
    ask(&hook, "shop.example").await;
    advance(Duration::from_secs(20)).await;
    for _ in 0..10 {
        let begun = Instant::now();
        let runs: Vec<_> = (0..20)
            .map(|_| {
                let hook = Arc::clone(&hook);
                tokio::spawn(async move { ask(&hook, "shop.example").await })
            })
            .collect();
        for run in runs {
            assert_eq!(run.await.unwrap().source, Source::Stale);
        }
        assert!(
            begun.elapsed() <= Duration::from_millis(300),
            "{:?}",
            begun.elapsed()
        );
        advance(Duration::from_millis(700)).await;
    }
}

/// A load that is broken off takes nothing away.
#[tokio::test(start_paused = true)]
async fn a_load_that_is_broken_off_leaves_what_was_there_before() {
    let script = "function handshake(tls)
        if tls.server_name == 'large.example' then string.rep('x', 10e6) return end
        tls:cached('key', 10, function()
            local text = string.rep('x', 10e6 + 1)
            if cache:get('hang') then redis('redis://here'):get('hang') end
            log(#text)
            tls:use('a.example')
        end)
        cache:set('hang', true, 1000)
    end";
    let (hook, _) = hook_with(script, |_| {});
    let hook = Arc::new(hook);
    ask(&hook, "shop.example").await;
    advance(Duration::from_secs(20)).await;
    let joins = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { ask(&hook, "shop.example").await })
    };
    tokio::task::yield_now().await;
    // The load holds most memory.
    let answer = ask(&hook, "large.example").await;
    assert!(
        matches!(answer.choice, Choice::Lookup),
        "{:?}",
        answer.choice
    );
    assert_eq!(
        joins.await.unwrap().source,
        Source::Failed,
        "broken off, too"
    );
    let answer = ask(&hook, "shop.example").await;
    assert_eq!(answer.source, Source::Stale, "{:?}", answer.choice);
}

#[tokio::test(start_paused = true)]
async fn a_client_over_its_budget_gets_what_was_there_before() {
    let (hook, world) = redis_hook();
    ask(&hook, "shop.example").await;
    advance(Duration::from_secs(100)).await;
    let name = hello("shop.example").server_name.clone();
    let over = Arc::new(hello_of(name, "203.0.113.1:1"));
    let begun = Instant::now();
    let answer = hook.ask(over, begun + Duration::from_secs(5)).await;
    assert_eq!(
        (answer.source, begun.elapsed()),
        (Source::Stale, Duration::ZERO)
    );
    assert_eq!(world.commands.load(SeqCst), 1, "without a call");
}
