//! Runs that fail: who is charged, and what is tried again.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sekisho_hook::{Choice, Hook, OnError};
use tokio::time::advance;

use crate::fake::{Fake, World, ask, body, failure, hook_with, report, settings};

/// A flood of handshakes whose run fails after a store call costs its prefix as much
/// as one of unknown names.
#[tokio::test(start_paused = true)]
async fn runs_that_fail_after_a_store_call_are_charged() {
    let call = "redis('redis://here'):get('a') ";
    let spent = |world: &World| world.spent.load(SeqCst);
    for (script, times) in [
        ("error('no')", 0),
        ("while true do end", 1),
        ("string.rep('x', 2 ^ 24)", 1),
        ("redis('redis://here'):get('a') error('no')", 1),
        ("redis('redis://here'):get('a') while true do end", 1),
        ("redis('redis://here'):get('a') string.rep('x', 2 ^ 24)", 1),
        // An outage is nobody's fault.
        ("redis('redis://here'):get('hang')", 0),
        ("redis('redis://here'):get('big')", 1),
        ("redis('redis://there'):get('a')", 0),
        // A server that refuses a call has no outage.
        ("sql('none'):query('SELECT $1::int', tls.server_name)", 1),
        (
            "pcall(redis('redis://there').get, redis('redis://there'), 'a') redis('redis://here'):get('a') error('no')",
            0,
        ),
        (
            "tls:cached('k', 60, function() redis('redis://there'):get('a') end)",
            0,
        ),
        (
            "tls:cached('k', 60, function() redis('redis://here'):get('a') error('no') end)",
            1,
        ),
    ] {
        let (hook, world) = body(script);
        let (answer, _) = report(&hook, "shop.example").await;
        assert!(matches!(answer.choice, Choice::Refuse(80)), "{script}");
        assert_eq!(spent(&world), times, "{script}");
    }
    // Where the policy looks the name up, the lookup decides. The default is there for
    // any name.
    for (script, policy, times) in [
        ("error('no')", OnError::Lookup, 0),
        ("error('no')", OnError::Default, 1),
        ("while true do end", OnError::Lookup, 1),
        ("while true do end", OnError::Default, 1),
    ] {
        let script = format!("function handshake(tls) {call} {script} end");
        let (hook, world) = hook_with(&script, |settings| settings.on_error = policy);
        let answer = ask(&hook, "shop.example").await;
        assert_eq!(spent(&world), times);
        assert_eq!(answer.charge.is_some(), times == 0);
    }
    // Bounds that others have met charge nobody.
    let (hook, world) = body("redis('redis://here'):get('hang')");
    let hook = Arc::new(hook);
    let runs: Vec<_> = (0..129)
        .map(|_| {
            let hook = Arc::clone(&hook);
            tokio::spawn(async move { report(&hook, "shop.example").await.1 })
        })
        .collect();
    let mut overloaded = 0;
    for run in runs {
        let error = run.await.unwrap().error.unwrap();
        overloaded += usize::from(error.contains("too many runs wait"));
    }
    assert_eq!((overloaded, spent(&world)), (1, 0));
}

/// A script with a fallback for unknown names makes them no cheaper than one without.
#[tokio::test(start_paused = true)]
async fn unknown_names_are_charged_whatever_the_script_chooses_next() {
    let call = "redis('redis://here'):get('a')";
    let outage = "pcall(redis('redis://there').get, redis('redis://there'), 'a')";
    let load = format!("tls:cached('k', 60, function() {call} end)");
    let outage_within = format!("tls:cached('k', 60, function() {outage} end)");
    let (default, r#use) = ("tls:default()", "tls:use('a.example')");
    for (first, then, times, is_left) in [
        (&*load, r#use, 1, false),
        (&load, default, 1, false),
        (&load, "tls:refuse()", 1, false),
        (&load, "", 1, false),
        (call, default, 1, false),
        // The lookup says what these led to.
        (call, r#use, 0, true),
        (call, "", 0, true),
        (outage, default, 0, false),
        (&outage_within, default, 0, false),
        ("", default, 0, false),
    ] {
        let (hook, world) = body(&format!("{first} {then}"));
        let answer = ask(&hook, "nobody.example").await;
        let seen = (world.spent.load(SeqCst), answer.charge.is_some());
        assert_eq!(seen, (times, is_left), "{first} {then}");
    }
    // A function that chooses something is free, and so is what is kept.
    let found = "tls:cached('k', 60, function() redis('redis://here'):get('a') tls:use('a.b') end)";
    let (hook, world) = body(found);
    for _ in 0..3 {
        let answer = ask(&hook, "shop.example").await;
        drop(answer);
    }
    assert_eq!(world.spent.load(SeqCst), 0);
    // The run may catch that its function was cut.
    let cut = "pcall(tls.cached, tls, 'k', 60, function() while true do end end)";
    let (hook, world) = body(&format!("{cut} tls:use('a.example')"));
    ask(&hook, "shop.example").await;
    assert_eq!(world.spent.load(SeqCst), 1);
}

/// The main chunk is not run again in each handshake once it has failed.
#[tokio::test(start_paused = true)]
async fn a_state_that_can_not_be_made_is_tried_again_later() {
    let script = "local luck = math.random(1, 1e9)
        if luck % 2 == 0 then error('no luck ' .. luck) end
        local kept = ''
        function handshake(tls) kept = string.rep('x', 13e6) error('the state is full') end";
    // The first state is made at once, the worker's own by the first run.
    let hook = loop {
        let hook = Hook::compile(settings(script), Fake::default());
        if let Ok(hook) = hook {
            break hook;
        }
    };
    let mut seen = BTreeSet::new();
    while seen.len() < 3 {
        let error = failure(&hook).await;
        if error.contains("the state is full") {
            continue;
        }
        assert!(error.starts_with("handshake.luau:2: no luck"), "{error}");
        for _ in 0..5 {
            assert_eq!(failure(&hook).await, error);
        }
        seen.insert(error);
        advance(Duration::from_secs(1)).await;
    }
}
