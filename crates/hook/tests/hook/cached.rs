//! `tls:cached`: one load per key, shared by all who ask.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sekisho_hook::{Choice, Hook, OnError, RegionUse, Source};
use tokio::time::{Instant, advance};

use crate::fake::{Fake, ask, body, chain, failure, hello, hello_of, hook_with, key, made, report};
use crate::shares::{CROWD, NEIGHBOUR, run, settle};

const REDIS: &str = r#"
    local r = redis("redis://here")
    function handshake(tls)
        local name = tls.server_name
        local found = tls:cached(name, 60, function()
            local crt, key = r:mget(name .. ".crt", name .. ".key")
            if crt and key then
                tls:certificate(crt)
                tls:certificate_key(key)
            end
        end)
        log(found)
        if not found then tls:refuse() end
    end
"#;

pub(crate) fn redis_hook() -> (Hook<Fake>, Arc<crate::fake::World>) {
    let (hook, world) = hook_with(REDIS, |_| {});
    let mut values = world.values.lock().unwrap();
    values.insert("shop.example.crt".into(), chain("shop"));
    values.insert("shop.example.key".into(), key("shop"));
    drop(values);
    (hook, world)
}

#[tokio::test(start_paused = true)]
async fn a_script_asks_its_store_once_per_time_limit() {
    let (hook, world) = redis_hook();
    let began = Instant::now();
    let (answer, first) = report(&hook, "shop.example").await;
    assert_eq!(made(&answer).subjects, ["shop"]);
    assert_eq!(answer.until, began + Duration::from_secs(60));
    assert_eq!(answer.source, Source::Script);
    assert_eq!(first.region, [("shop.example".into(), RegionUse::Loaded)]);
    let key = made(&answer).key.as_deref();
    assert!(key.unwrap().ends_with("shop.example"));
    advance(Duration::from_secs(59)).await;
    let (answer, second) = report(&hook, "shop.example").await;
    assert_eq!(made(&answer).subjects, ["shop"]);
    assert_eq!(answer.until, began + Duration::from_secs(60));
    assert_eq!(answer.source, Source::Region);
    assert_eq!(second.region, [("shop.example".into(), RegionUse::Hit)]);
    assert_eq!(world.commands.load(SeqCst), 1);
    advance(Duration::from_secs(2)).await;
    ask(&hook, "shop.example").await;
    assert_eq!(world.commands.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn absences_and_failures_are_remembered_for_a_short_time() {
    let (hook, world) = redis_hook();
    for _ in 0..3 {
        let answer = ask(&hook, "none.example").await;
        assert!(
            matches!(answer.choice, Choice::Refuse(112)),
            "{:?}",
            answer.choice
        );
    }
    assert_eq!(world.commands.load(SeqCst), 1);
    advance(Duration::from_secs(6)).await;
    ask(&hook, "none.example").await;
    assert_eq!(world.commands.load(SeqCst), 2);
    *world.down.lock().unwrap() = true;
    for _ in 0..3 {
        let (answer, report) = report(&hook, "other.example").await;
        assert!(
            matches!(answer.choice, Choice::Refuse(80)),
            "{:?}",
            answer.choice
        );
        let error = report.error.unwrap();
        assert!(
            error.contains("the function of tls:cached failed"),
            "{error}"
        );
        assert!(error.contains("connection refused"), "{error}");
    }
    assert_eq!(world.commands.load(SeqCst), 3);
    *world.down.lock().unwrap() = false;
    advance(Duration::from_secs(2)).await;
    let answer = ask(&hook, "other.example").await;
    assert!(
        matches!(answer.choice, Choice::Refuse(112)),
        "absent now: {:?}",
        answer.choice
    );
}

const GATE: &str = r#"function handshake(tls)
    tls:cached("key", 60, function()
        redis("redis://here"):get("gate")
        tls:use("a.example")
    end)
end"#;

#[tokio::test(start_paused = true)]
async fn all_who_ask_share_one_load() {
    let (hook, world) = hook_with(GATE, |_| {});
    let hook = Arc::new(hook);
    let runs: Vec<_> = (0..10)
        .map(|_| {
            let hook = Arc::clone(&hook);
            tokio::spawn(async move { ask(&hook, "shop.example").await })
        })
        .collect();
    while world.commands.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    world.gate.notify_waiters();
    for run in runs {
        let answer = run.await.unwrap();
        assert!(
            matches!(answer.choice, Choice::Use(_)),
            "{:?}",
            answer.choice
        );
    }
    assert_eq!(world.commands.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn a_client_that_goes_away_stops_no_load() {
    let (hook, world) = hook_with(GATE, |_| {});
    let hook = Arc::new(hook);
    let leader = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { ask(&hook, "shop.example").await })
    };
    while world.commands.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    leader.abort();
    assert!(leader.await.err().unwrap().is_cancelled());
    let waiting = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { ask(&hook, "shop.example").await })
    };
    tokio::task::yield_now().await;
    world.gate.notify_waiters();
    let answer = waiting.await.unwrap();
    assert!(
        matches!(answer.choice, Choice::Use(_)),
        "{:?}",
        answer.choice
    );
    assert_eq!(world.commands.load(SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn those_who_join_a_load_that_is_broken_off_begin_another() {
    let script = "function handshake(tls)
        if tls.server_name == 'large.example' then string.rep('x', 10e6) return end
        tls:cached('key', 60, function()
            local text = string.rep('x', 10e6 + 1)
            redis('redis://here'):get('gate')
            log(#text)
            tls:use('a.example')
        end)
    end";
    let (hook, world) = hook_with(script, |_| {});
    let hook = Arc::new(hook);
    let begins = run(&hook, "shop.example", CROWD);
    settle().await;
    let joins: Vec<_> = (0..3)
        .map(|_| run(&hook, "shop.example", NEIGHBOUR))
        .collect();
    settle().await;
    // The load holds most memory.
    run(&hook, "large.example", CROWD).await.unwrap();
    let error = begins.await.unwrap().1.error.unwrap();
    assert!(error.contains("its network held most"), "{error}");
    settle().await;
    world.gate.notify_waiters();
    for joined in joins {
        let (answer, report) = joined.await.unwrap();
        assert!(matches!(answer.choice, Choice::Use(_)), "{report:?}");
    }
    assert_eq!(world.commands.load(SeqCst), 2);
}

#[tokio::test(start_paused = true)]
async fn an_absence_that_nobody_waits_for_is_charged() {
    let (hook, world) = body(
        r#"tls:cached("key", 60, function() redis("redis://here"):get("gate") end)
        tls:use("a.example")"#,
    );
    let hook = Arc::new(hook);
    let leader = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { ask(&hook, "shop.example").await })
    };
    while world.commands.load(SeqCst) == 0 {
        tokio::task::yield_now().await;
    }
    leader.abort();
    let _ = leader.await;
    world.gate.notify_waiters();
    for _ in 0..10 {
        tokio::task::yield_now().await;
    }
    assert_eq!(world.spent.load(SeqCst), 1);
    ask(&hook, "shop.example").await;
    assert_eq!(world.commands.load(SeqCst), 1, "the absence is known");
}

#[tokio::test]
async fn tenants_never_share_what_one_key_has() {
    let script = r#"
    local function pem(kind, name)
        return "-----BEGIN " .. kind .. "-----\n" .. name .. "\n"
    end
    function handshake(tls)
        local name = tls.server_name
        local function give()
            if name:find("inner") then tls:tenant(name) end
            tls:certificate(pem("CERTIFICATE", name))
            tls:certificate_key(pem("PRIVATE KEY", name))
        end
        if not name:find("inner") then tls:tenant(name) end
        tls:cached("one key", 60, give)
    end"#;
    let (hook, _) = hook_with(script, |_| {});
    for name in ["a.example", "b.example", "a.example"] {
        let answer = ask(&hook, name).await;
        assert_eq!(made(&answer).tenant, name);
        assert_eq!(made(&answer).subjects, [name]);
    }
    // Named within the function only, the first one's is served whole: no certificate
    // of one tenant comes with the other's name.
    for name in ["inner-a.example", "inner-b.example"] {
        let answer = ask(&hook, name).await;
        assert_eq!(made(&answer).tenant, "inner-a.example");
        assert_eq!(made(&answer).subjects, ["inner-a.example"]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_over_its_budget_fails_for_nobody_else() {
    let (hook, _) = body(
        "tls:cached('k', 60, function()
            redis('redis://here'):get('a')
            tls:use('b.example')
        end)",
    );
    let name = hello("shop.example").server_name.clone();
    let over = Arc::new(hello_of(name, "203.0.113.1:1"));
    let later = Instant::now() + Duration::from_secs(1);
    let answer = hook.ask(over, later).await;
    assert_eq!(answer.source, Source::Failed);
    let answer = ask(&hook, "shop.example").await;
    assert!(
        matches!(answer.choice, Choice::Use(_)),
        "{:?}",
        answer.choice
    );
}

#[tokio::test]
async fn misuse_is_an_error() {
    for (script, what) in [
        (
            "tls:cached('k', 1, function() tls:cached('l', 1, function() end) end)",
            "can't be nested",
        ),
        (
            "tls:use('a.example') tls:cached('k', 1, function() end)",
            "would choose twice",
        ),
        (
            "tls:cached('', 1, function() end)",
            "key must be at least one byte",
        ),
        (
            "tls:cached(string.rep('k', 257), 1, function() end)",
            "key must be at most 256 bytes",
        ),
        ("tls:cached('k', -1, function() end)", "ttl must be 0.001"),
        (
            "tls:cached('k', 0 / 0, function() end)",
            "ttl must be 0.001",
        ),
        (
            "tls:site('{}') tls:cached('k', 1, function() end)",
            "call tls:site within the function",
        ),
        ("tls:cached('k', 1)", "third argument must be a function"),
        (
            "tls:cached('k', 1, function() error('inner') end)",
            "the function of tls:cached failed: handshake.luau:2: inner",
        ),
        (
            "tls:cached('k', 1, function() while true do end end)",
            "failed: handshake.luau:2: the script took too much CPU time",
        ),
        (
            "tls:cached('k', 1, function() tls:certificate('-----BEGIN X\\na') end)",
            "1 certificates with 0 keys",
        ),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.contains(what), "{script}: {error}");
    }
}

#[tokio::test]
async fn failures_of_functions_can_be_caught() {
    let (hook, _) = hook_with(
        "function handshake(tls)
            local ok, why = pcall(tls.cached, tls, 'k', 60, function() error('no') end)
            log(ok, why)
        end",
        |settings| settings.on_error = OnError::Refuse,
    );
    let (answer, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert!(matches!(answer.choice, Choice::Lookup));
    assert!(report.log[0].starts_with("false"), "{:?}", report.log);
}

#[tokio::test]
async fn the_region_is_bounded_in_bytes() {
    let script = "function handshake(tls)
        tls:cached(tls.server_name, 60, function()
            tls:certificate('-----BEGIN X\\na\\n')
            tls:certificate_key('-----BEGIN X\\na\\n')
        end)
    end";
    let (hook, _) = hook_with(script, |settings| settings.region = 1 << 20);
    for number in 0..2000 {
        ask(&hook, &format!("h{number}.example")).await;
    }
    let mut registry = sekisho_certs::metrics::Registry::default();
    hook.register(&mut registry);
    let mut text = String::new();
    prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
    let line = text
        .lines()
        .find(|line| line.starts_with("hook_region_bytes "))
        .unwrap();
    let bytes: u64 = line.split(' ').nth(1).unwrap().parse().unwrap();
    assert!((500_000..=1 << 20).contains(&bytes), "{bytes}");
}
