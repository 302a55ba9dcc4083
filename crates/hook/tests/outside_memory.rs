//! Memory that scripts take outside of their state, where `[hook] memory` does not see
//! it. A process of its own: it measures its peak, which other tests would raise.
#![allow(clippy::unwrap_used, dead_code, reason = "a test may panic")]

#[path = "hook/fake.rs"]
mod fake;

use std::time::Duration;

use fake::{body, failure, hook_with, report};

#[tokio::test]
async fn headers_are_measured_before_they_are_copied() {
    let before = peak();
    for script in [
        "local big = string.rep('x', 1e6) local headers = {}
        for i = 1, 600 do headers[i] = big end
        http.get('https://here/found', {headers = headers})",
        "local big = string.rep('x', 4e6) local headers = {}
        for i = 1, 600 do headers['n' .. i] = big end
        for i = 1, 20 do pcall(http.get, 'https://here/found', {headers = headers}) end
        http.get('https://here/found', {headers = headers})",
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.contains("at most 8 KiB with its name"), "{error}");
    }
    let (hook, _) = body(
        "local headers = {} for i = 1, 33 do headers['n' .. i] = string.rep('x', 8000) end
        http.get('https://here/found', {headers = headers})",
    );
    let error = failure(&hook).await;
    assert!(error.contains("at most 32 fields"), "{error}");
    let grown = peak() - before;
    assert!(grown < MOST, "{} MiB", grown >> 20);
}

#[tokio::test]
async fn errors_that_a_script_keeps_are_in_its_memory() {
    let before = peak();
    for catch in [
        "local _, why = pcall(function() return tls[long] end)",
        "local _, why = pcall(function() return _G[long] end)",
        "local _, why = xpcall(function() return tls[long] end, function(why) return why end)",
        "local _, why = xpcall(function() error('x') end, function() return tls[long] end)",
    ] {
        let script = format!(
            "local kept = {{}}
            function handshake(tls)
                for i = 1, 20 do
                    local long = string.rep('x', 1e6) .. i
                    {catch}
                    table.insert(kept, why)
                end
                log(#kept, type(kept[1]), #kept[1])
            end"
        );
        let (hook, _) = hook_with(&script, |settings| settings.cpu = Duration::from_secs(20));
        for run in 1..=20 {
            let (_, report) = report(&hook, "shop.example").await;
            assert_eq!(report.error, None, "{catch}");
            let words: Vec<_> = report.log[0].split(' ').collect();
            assert_eq!(words[..2], [&*(run * 20).to_string(), "string"], "{catch}");
            assert!(words[2].parse::<u32>().unwrap() < 600, "{words:?}");
        }
    }
    let grown = peak() - before;
    assert!(grown < MOST, "{} MiB", grown >> 20);
}

/// Returns the most memory that this process had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse::<u64>().unwrap() << 10
}

/// Growth that the states of both tests explain: each has 16 MiB, and a copy of its largest
/// text.
const MOST: u64 = 96 << 20;
