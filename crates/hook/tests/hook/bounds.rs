//! Bounds of a run, and what becomes of those beside it.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use sekisho_certs::metrics::Registry;
use sekisho_hook::{Choice, Hook};
use tokio::time::Instant;

use crate::fake::{Fake, ask, body, failure, hello, hello_of, hook_with, report, settings};

#[tokio::test]
async fn a_cut_can_not_be_caught() {
    let (hook, _) = body("pcall(function() while true do end end) tls:use('a.example')");
    assert!(failure(&hook).await.contains("too much CPU time"));
}

/// The coroutine's stack has grown, and can't be moved once memory is out.
#[tokio::test]
async fn a_deep_stack_without_memory_ends_the_run_alone() {
    for (depth, each) in [(0, 45), (20, 24), (60, 45), (180, 10)] {
        let script = format!(
            "local function deep(n)
                if n > 0 then local a, b = deep(n - 1), n return a end
                local t = {{}} while true do t = {{t, a = table.create({each}, 0)}} end
            end
            function handshake(tls)
                if tls.server_name == 'bomb.example' then deep({depth}) end
            end"
        );
        let (hook, _) = hook_with(&script, |settings| {
            settings.cpu = Duration::from_secs(20);
        });
        for _ in 0..2 {
            let (answer, bombed) = report(&hook, "bomb.example").await;
            assert!(matches!(answer.choice, Choice::Refuse(80)));
            assert!(bombed.error.unwrap().contains("too much memory"));
            let (_, after) = report(&hook, "shop.example").await;
            assert_eq!(after.error, None);
        }
    }
}

#[tokio::test]
async fn memory_is_bounded_and_the_state_goes_on() {
    for bomb in [
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = {i} end",
        "string.rep('x', 1e9)",
    ] {
        let script = format!(
            "local kept = {{}} local calls = 0
            function handshake(tls)
                calls += 1
                if tls.server_name == 'bomb.example' then {bomb} end
                log(calls)
            end"
        );
        let (hook, _) = hook_with(&script, |settings| {
            settings.cpu = Duration::from_secs(20);
        });
        report(&hook, "shop.example").await;
        let (answer, bombed) = report(&hook, "bomb.example").await;
        assert!(matches!(answer.choice, Choice::Refuse(80)));
        let error = bombed.error.unwrap();
        assert!(
            error.contains("too much memory") || error.contains("too large"),
            "{bomb}: {error}"
        );
        let (_, after) = report(&hook, "shop.example").await;
        assert_eq!(after.error, None);
        let runs: u32 = after.log[0].parse().unwrap();
        assert!(runs >= 3, "{bomb}: the state is the same");
    }
}

#[tokio::test]
async fn what_a_script_hoards_ends_with_its_state() {
    let script = "local kept = {}
        function handshake(tls)
            table.insert(kept, string.rep('x', 1e6 + #kept))
            log(#kept)
        end";
    let (hook, _) = hook_with(script, |settings| settings.memory = 8 << 20);
    let mut most = 0;
    for _ in 0..30 {
        let (_, report) = report(&hook, "shop.example").await;
        assert_eq!(report.error, None, "replaced before memory is out");
        most = most.max(report.log[0].parse().unwrap());
    }
    assert!((3..8).contains(&most), "{most}");
}

/// A state that is nearly full from the start would be made anew in each handshake.
#[test]
fn a_script_that_keeps_most_of_its_memory_does_not_start() {
    let compile = |kept: f64, memory| {
        let script = format!("kept = string.rep('x', {kept}) function handshake(tls) end");
        let mut settings = settings(&script);
        settings.memory = memory;
        Hook::compile(settings, Fake::default()).map(drop)
    };
    let error = compile(1.2e6, 2 << 20).unwrap_err().to_string();
    let numbers = error.split(' ').filter_map(|word| word.parse::<u32>().ok());
    let numbers: Vec<_> = numbers.collect();
    assert!((1172..2048).contains(&numbers[0]), "{error}");
    assert_eq!(numbers[1..], [2048], "{error}");
    assert!(error.contains("[hook] memory"), "{error}");
    compile(0.3e6, 2 << 20).unwrap();
}

#[tokio::test]
async fn deep_recursion_is_an_error() {
    for recursion in [
        "local function f(n) return 1 + f(n + 1) end f(1)",
        "local function g() table.sort({2, 1}, g) end g()",
    ] {
        let script = format!("function handshake(tls) {recursion} end");
        // Time enough to come to the stack's end.
        let (hook, _) = hook_with(&script, |settings| settings.cpu = Duration::from_secs(20));
        let error = failure(&hook).await;
        assert!(error.contains("stack overflow"), "{error}");
    }
    let (hook, _) = body("local function f() pcall(f) end f()");
    let (_, caught) = report(&hook, "shop.example").await;
    assert_eq!(caught.error, None);
    let (hook, _) = body("local t = {} for i = 1, 1e4 do t = {t} end log(#t)");
    assert_eq!(report(&hook, "shop.example").await.1.error, None);
}

#[tokio::test(start_paused = true)]
async fn waits_end_at_the_deadline() {
    let (hook, _) = body("redis('redis://here'):get('hang')");
    let began = Instant::now();
    let error = failure(&hook).await;
    assert!(
        error.contains("the run took too long ([hook] timeout)"),
        "{error}"
    );
    assert_eq!(began.elapsed().as_secs(), 5);
    let began = Instant::now();
    hook.ask(hello("shop.example"), began + Duration::from_secs(2))
        .await;
    assert_eq!(began.elapsed().as_secs(), 2, "the handshake's own deadline");
}

#[tokio::test(start_paused = true)]
async fn runs_that_wait_are_bounded_by_prefix_and_in_all() {
    let script = "function handshake(tls)
        if tls.server_name == 'hang.example' then redis('redis://here'):get('hang') end
        tls:use('a.example')
    end";
    let (hook, _) = hook_with(script, |settings| {
        settings.in_flight = 3;
        settings.waiting_per_prefix = 2;
    });
    let hook = Arc::new(hook);
    let hang = |address: &str| {
        let hook = Arc::clone(&hook);
        let hello = hello_of(hello("hang.example").server_name.clone(), address);
        let deadline = Instant::now() + Duration::from_secs(3);
        tokio::spawn(async move { hook.report(Arc::new(hello), deadline).await.1 })
    };
    let first: Vec<_> = (0..3).map(|_| hang("192.0.2.1:1")).collect();
    let second: Vec<_> = (0..2).map(|_| hang("198.51.100.1:1")).collect();
    tokio::task::yield_now().await;
    // Runs that do not wait need no permit.
    assert!(matches!(
        ask(&hook, "shop.example").await.choice,
        Choice::Use(_)
    ));
    let mut errors = Vec::new();
    for run in first.into_iter().chain(second) {
        errors.push(run.await.unwrap().error.unwrap());
    }
    let overloaded = errors
        .iter()
        .filter(|error| error.contains("too many runs wait"));
    assert_eq!(overloaded.count(), 2, "{errors:?}");
    // All permits are free again.
    let again = hang("192.0.2.1:1").await.unwrap();
    assert!(again.error.unwrap().contains("too long"));
}

#[tokio::test]
async fn what_leads_to_nothing_is_charged_to_the_prefix() {
    let (hook, world) = body(
        r#"
        local value = redis("redis://here"):get(tls.server_name)
        redis("redis://here"):get("other")
        if value then tls:use("a.example") else tls:refuse() end
        "#,
    );
    world
        .values
        .lock()
        .unwrap()
        .insert("there.example".into(), b"1".to_vec());
    let counts = || {
        let order = std::sync::atomic::Ordering::SeqCst;
        (world.tokens.load(order), world.spent.load(order))
    };
    ask(&hook, "there.example").await;
    assert_eq!(counts(), (1, 0), "one token for both calls, and given back");
    ask(&hook, "nobody.example").await;
    assert_eq!(counts(), (2, 1));
    let (hook, world) = body("redis('redis://here'):get('a')");
    let spent = || world.spent.load(std::sync::atomic::Ordering::SeqCst);
    let answer = ask(&hook, "nobody.example").await;
    assert_eq!(spent(), 0, "the lookup says what it led to");
    answer.charge.expect("the token")();
    assert_eq!(spent(), 1);
    drop(ask(&hook, "nobody.example").await);
    assert_eq!(spent(), 1);
    let over = hello_of(hello("shop.example").server_name.clone(), "203.0.113.1:1");
    let deadline = Instant::now() + Duration::from_secs(1);
    let (_, report) = hook.report(Arc::new(over), deadline).await;
    assert!(report.error.unwrap().contains("too many runs wait"));
}

#[tokio::test]
async fn calls_of_a_run_are_bounded() {
    let (hook, _) = body("while true do redis('redis://here'):get('a') end");
    let error = failure(&hook).await;
    assert!(error.contains("at most 64 calls"), "{error}");
}

#[tokio::test]
async fn a_third_certificate_is_refused_before_it_is_kept() {
    let (hook, _) = body(
        "local pem = '-----BEGIN X' .. string.rep('x', 1e5)
        tls:certificate(pem) tls:certificate(pem)
        for i = 1, 100 do pcall(tls.certificate, tls, pem) end
        tls:certificate(pem)",
    );
    let error = failure(&hook).await;
    assert!(error.contains("at most two certificates"), "{error}");
}

#[tokio::test]
async fn no_log_shows_a_key_that_is_not_pem() {
    let (hook, _) = body("tls:certificate_key('MHcCAQEEIHush/hush+hush==')");
    let error = failure(&hook).await;
    assert!(error.contains("neither PEM nor a file"), "{error}");
    assert!(!error.contains("ush"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_client_that_leaves_a_store_call_is_charged() {
    let (hook, world) = body("redis('redis://here'):get('hang')");
    let leaves = tokio::time::timeout(Duration::from_secs(1), ask(&hook, "shop.example"));
    assert!(leaves.await.is_err());
    assert_eq!(world.spent.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn what_a_run_waited_for_ends_with_it() {
    let (hook, world) = body(
        "if tls.server_name == 'cut.example' then while true do end end
        redis('redis://here'):get('hang')",
    );
    let hook = Arc::new(hook);
    let waits = {
        let hook = Arc::clone(&hook);
        tokio::spawn(async move { ask(&hook, "shop.example").await })
    };
    tokio::task::yield_now().await;
    // The state's last run was cut.
    ask(&hook, "cut.example").await;
    waits.abort();
    assert!(waits.await.err().unwrap().is_cancelled());
    assert_eq!(world.dropped.load(std::sync::atomic::Ordering::SeqCst), 1);
}

#[tokio::test(start_paused = true)]
async fn garbage_is_no_reason_to_replace_a_state() {
    let script = "local calls = 0 function handshake(tls)
        calls += 1
        string.rep('x', 2900000 + calls)
        log(calls)
    end";
    let (hook, _) = hook_with(script, |settings| settings.memory = 4 << 20);
    for count in 1..=20 {
        let (_, report) = report(&hook, "shop.example").await;
        assert_eq!(report.error, None);
        assert_eq!(report.log, [count.to_string()]);
    }
}

#[tokio::test]
async fn outcomes_are_counted_by_fixed_labels() {
    let (hook, _) = body(
        "if tls.server_name == 'cut.example' then while true do end end
        if tls.server_name == 'error.example' then error('no') end
        tls:refuse()",
    );
    for name in ["cut.example", "error.example", "a.example", "b.example"] {
        ask(&hook, name).await;
    }
    let text = metrics(&hook);
    for line in [
        "hook_runs_total{outcome=\"cpu\"} 1",
        "hook_runs_total{outcome=\"error\"} 1",
        "hook_runs_total{outcome=\"refuse\"} 2",
        "hook_states_replaced_total 0",
        "hook_runs_waiting 0",
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

pub(crate) fn metrics(hook: &Hook<Fake>) -> String {
    let mut registry = Registry::default();
    hook.register(&mut registry);
    let mut text = String::new();
    encode(&mut text, &registry).unwrap();
    text
}
