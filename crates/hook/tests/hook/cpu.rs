//! CPU time of runs, measured by the thread's clock: other tests run beside.

use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::fake::{body, failure, hook_with, report};

/// Scripts that would run for very long.
const ENDLESS: [&str; 18] = [
    "local t, one = {}, table.create(1e5, 1) for i = 1, 1e4 do t[i] = one end
     table.sort(t, table.find)",
    "while true do end",
    "repeat local x = 1 until false",
    "while true do pcall(function() while true do end end) end",
    "for i = 1, 1e9 do string.rep('x', 1000) end",
    "string.rep('', 2 ^ 31 - 1) while true do end",
    "local s = string.rep('a', 30) string.gsub(s, string.rep('a*', 30) .. 'b', '')",
    "string.find(string.rep('a', 1e6), string.rep('.-', 20) .. 'b')",
    "local t = {} for i = 1, 2e5 do t[i] = -i end
     table.sort(t, function(a, b) for i = 1, 100 do end return a < b end)",
    "local a, b = string.rep('x', 2e6) .. 'a', string.rep('x', 2e6) .. 'b'
     local t = {} for i = 1, 1000 do t[i] = if i % 2 == 0 then a else b end
     table.sort(t)",
    "string.gsub(string.rep('a', 1e6), 'a', function() for i = 1, 1000 do end end)",
    "setmetatable({}, {__index = function(t, k) while true do end end}).x = (function() while true do end end)()",
    "local s = 'x' while true do s = string.reverse(string.rep('ab', 1e4)) end",
    // Few interrupts, far apart.
    "local s = string.rep('x', 1e6) while true do utf8.len(s) end",
    "local s = string.rep('(', 4e6) s:match('%b()')",
    "local s, p = string.rep('a', 1e6), '[' .. string.rep('b', 13) .. 'a]*' while true do s:match(p) end",
    "for _ in string.gmatch(string.rep('a', 1e6), '[bcdefghijklma]*x') do end",
    "local s = string.rep('a', 1e6) while true do s:find(string.rep('a', 120) .. 'b', 1, true) end",
];

#[tokio::test]
async fn endless_loops_are_cut() {
    for script in ENDLESS {
        let (hook, _) = body(script);
        let began = cpu_time();
        let error = failure(&hook).await;
        let took = cpu_time() - began;
        assert!(error.contains("too much CPU time"), "{script}: {error}");
        assert!(error.starts_with("handshake.luau:"), "{script}: {error}");
        let line = error.split(':').nth(1).map(str::parse::<u32>);
        assert!(matches!(line, Some(Ok(2..=4))), "{script}: {error}");
        assert!(took < LATE, "{script}: {took:?}");
    }
}

/// Calls that would run for long without an interrupt.
const UNCUT: [&str; 18] = [
    "utf8.len(string.rep('x', 4e6))",
    "utf8.offset(string.rep('x', 4e6), 3e6)",
    "string.find(string.rep('a', 4e6), string.rep('a', 2e6) .. 'b', 1, true)",
    "string.split(string.rep('a', 4e6), string.rep('a', 2e6) .. 'b')",
    "table.move({}, 1, 2 ^ 31 - 2, 1)",
    "table.move({}, '1', '1073741823', 5)",
    "table.concat({}, 'x', 1, 2 ^ 31 - 1)",
    "local s = string.rep('a', 4e6); (s):find(string.rep('a', 2e6) .. 'b')",
    "select(2 ^ 31 - 1, table.unpack({}, 1, 2 ^ 31 - 1))",
    "table.create(2 ^ 31 - 1, 'x')",
    "buffer.create(2 ^ 31 - 1)",
    "string.format('%999999999d', 1)",
    "string.match(string.rep('a', 1e5), '[' .. string.rep('b', 1e5) .. 'a]*')",
    "string.gsub(string.rep('a', 1e5), '^[]' .. string.rep('%]', 5e4) .. 'a]*', '')",
    "string.gmatch(string.rep('a', 1e5), '%b[[x[^]' .. string.rep('b', 1e5) .. 'a]*')()",
    "string.find(string.rep('a', 1e5), '%f[' .. string.rep('b', 1e5) .. 'a]*')",
    "string.find(string.rep('a', 16e3), '[' .. string.rep('b', 16e3) .. 'a]*')",
    "string.match(string.rep('a', 4e6), 'x[' .. string.rep('b', 4e6))",
];

#[tokio::test]
async fn calls_without_interrupts_are_bounded() {
    for script in UNCUT {
        let (hook, _) = body(script);
        let began = cpu_time();
        failure(&hook).await;
        let took = cpu_time() - began;
        assert!(took < LATE, "{script}: {took:?}");
    }
}

#[tokio::test]
async fn usual_patterns_match_in_answers_of_any_size() {
    let (hook, _) = hook_with(
        r#"function handshake(tls)
        local body = string.rep('{"host": "other.example"}, ', 38e3) .. '{"host": "shop.example"}'
        log(#body > 1e6, body:match('"host":%s*"(shop[^"]+)"'), body:find("shop.example", 1, true) ~= nil)
        log(select(2, body:gsub("%.example", "")), #body:split(","))
        log((body:gmatch("[%w%.]+%.example")()), body:find("[%w%-%.]+%.test"))
        local host = "a-1.shop.example"
        log(host:match("^([%w%-]+)%.(.+)$"))
        log(pcall(string.find, "a", "["))
        log((select(2, pcall(string.match, string.rep("a", 1e6), "[bcdefghijklmnopqrstuvwxyz]*"))))
        end"#,
        |settings| settings.cpu = Duration::from_secs(20),
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert_eq!(
        report.log,
        [
            "true shop.example true",
            "38001 38001",
            "other.example nil",
            "a-1 shop.example",
            "false malformed pattern (missing ']')",
            "the text is too long for a `[…]` of this length",
        ]
    );
    let (hook, _) = body("local x = ('a'):match('[')");
    let error = failure(&hook).await;
    assert_eq!(error, "handshake.luau:2: malformed pattern (missing ']')");
}

/// Returns the CPU time of this thread.
fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::try_from(time).unwrap()
}

/// A hundred times the bound of a run: Luau is not optimized here. Without their bounds, these
/// scripts would run for minutes or hours.
const LATE: Duration = Duration::from_secs(2);
