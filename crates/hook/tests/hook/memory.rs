//! Memory that scripts take outside of their state, where `[hook] memory` does not see
//! it.

use crate::fake::{body, failure};

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

/// Returns the most memory that this process had, in bytes.
fn peak() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:"));
    let kilobytes = line.and_then(|line| line.split_whitespace().nth(1));
    kilobytes.unwrap().parse::<u64>().unwrap() << 10
}

/// Growth that states of other tests explain: each has 16 MiB.
const MOST: u64 = 128 << 20;
