//! Measures what a run of the hook costs, without a network.
//!
//! `cargo run --release -p sekisho-hook --example cost`; with the name of a script,
//! only that. For callgrind, with a number of runs too: instructions of 2,000 runs less
//! those of 1,000 are 1,000 runs without the start.
#![allow(clippy::unwrap_used, dead_code, reason = "a tool of ours")]

#[path = "../tests/hook/fake.rs"]
mod fake;

use std::future::{Future, poll_fn};
use std::task::Poll;
use std::time::{Duration, Instant};

use fake::{ask, body, chain, hook_with, key};

const RUNS: u32 = 20_000;
const ROUNDS: usize = 15;
/// Runs that wait at a time.
const WAITING: u16 = 1000;

/// Bodies of `handshake`, by what they show.
const SCRIPTS: [(&str, &str); 22] = [
    ("empty", ""),
    ("server_name", "local a = tls.server_name"),
    ("client_addr", "local a = tls.client_addr"),
    ("alpn", "local a = tls.alpn"),
    ("default", "tls:default()"),
    ("refuse", "tls:refuse()"),
    ("tenant", "tls:tenant('t')"),
    ("site", "tls:site('{}')"),
    ("lookup", "tls:lookup('cold.example')"),
    (
        "certificate",
        "tls:certificate([[-----BEGIN CERTIFICATE-----\nx\n]]) \
         tls:certificate_key([[-----BEGIN PRIVATE KEY-----\nx\n]])",
    ),
    ("redis", "redis('redis://here')"),
    ("redis:get", "redis('redis://here'):get('a')"),
    ("redis:mget", "redis('redis://here'):mget('a', 'b')"),
    ("redis:hgetall", "redis('redis://here'):hgetall('a')"),
    ("http.get", "http.get('https://here/found')"),
    ("sql:query", "sql('main'):query('SELECT $1', 'a')"),
    ("cache:set", "cache:set('a', 'b', 60)"),
    ("log", "log('a')"),
    ("use", "tls:use(tls.server_name)"),
    (
        "hook",
        "local name = tls.server_name if not name or tls:lookup(name) == 'failed' then tls:refuse('internal_error') end",
    ),
    (
        "hook-cached",
        "tls:cached(tls.server_name, 600, function() tls:use('other.example') end)",
    ),
    ("cache:get", "cache:get(tls.server_name)"),
];

fn main() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let only = std::env::args().nth(1);
    if only.as_deref() == Some("memory") {
        runtime.block_on(memory());
        return;
    }
    // For callgrind: a number of runs, and nothing else.
    if let Some(runs) = std::env::args().nth(2) {
        let runs: u32 = runs.parse().unwrap();
        let (_, script) = SCRIPTS
            .iter()
            .find(|(name, _)| Some(*name) == only.as_deref())
            .unwrap();
        let (hook, _) = body(script);
        runtime.block_on(async {
            for _ in 0..runs {
                ask(&hook, "there.example").await;
            }
        });
        return;
    }
    for (name, script) in SCRIPTS {
        if only.as_deref().is_some_and(|only| only != name) {
            continue;
        }
        let (hook, _) = body(script);
        let best = runtime.block_on(async {
            let mut best = Duration::MAX;
            for _ in 0..ROUNDS {
                let begun = Instant::now();
                for _ in 0..RUNS {
                    ask(&hook, "there.example").await;
                }
                best = best.min(begun.elapsed());
            }
            best
        });
        println!("{name}: {} ns", best.as_nanos() / u128::from(RUNS));
    }
    if only.is_some() {
        return;
    }
    runtime.block_on(never_cached());
    runtime.block_on(memory());
}

/// The Redis hook of the papers, which asks in every handshake.
async fn never_cached() {
    let script = "local r = redis('redis://here') function handshake(tls)
        local crt, key = r:mget(tls.server_name .. '.crt', tls.server_name .. '.key')
        tls:certificate(crt) tls:certificate_key(key)
    end";
    let (hook, world) = hook_with(script, |_| {});
    world.values.lock().unwrap().extend([
        ("there.example.crt".to_owned(), chain(&"x".repeat(3000))),
        ("there.example.key".to_owned(), key(&"x".repeat(3000))),
    ]);
    let mut best = Duration::MAX;
    for _ in 0..ROUNDS {
        let begun = Instant::now();
        for _ in 0..RUNS {
            ask(&hook, "there.example").await;
        }
        best = best.min(begun.elapsed());
    }
    println!("hook-redis: {} ns", best.as_nanos() / u128::from(RUNS));
}

/// Memory of a state, and of runs that wait in it.
async fn memory() {
    let script = "local r = redis('redis://here') function handshake(tls)
        if tls.server_name ~= 'idle.example' then r:get('hang') end
    end";
    let (hook, _) = hook_with(script, |_| {});
    let (_, idle) = fake::report(&hook, "idle.example").await;
    println!("state: {} bytes", idle.memory);
    let before = resident();
    let mut runs = Vec::new();
    for number in 0..WAITING {
        let mut hello = (*fake::hello("there.example")).clone();
        let [high, low] = number.to_be_bytes();
        // Networks of their own: each has a share of the permits only.
        let facts = std::sync::Arc::make_mut(&mut hello.facts);
        facts.client.set_ip([low, high, 0, 1].into());
        let deadline = tokio::time::Instant::now() + Duration::from_secs(60);
        let run = Box::pin(hook.ask(std::sync::Arc::new(hello), deadline));
        runs.push(run);
    }
    for run in &mut runs {
        let waits = poll_fn(|context| Poll::Ready(run.as_mut().poll(context).is_pending()));
        assert!(waits.await);
    }
    let (_, busy) = fake::report(&hook, "idle.example").await;
    println!(
        "per run that waits: {} bytes, {} of them in Luau, {} its future",
        (resident() - before) / usize::from(WAITING),
        (busy.memory - idle.memory) / usize::from(WAITING),
        size_of_val(&*runs[0]),
    );
}

fn resident() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: usize = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}
