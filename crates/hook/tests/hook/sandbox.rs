//! Scripts that must not start, and what none may touch.

use crate::fake::{body, failure, hook_with, refused, report};

#[test]
fn scripts_that_can_not_work_do_not_start() {
    for (script, what) in [
        (
            "function handshake(tls)\nlocal = 1\nend",
            "handshake.luau:2: ",
        ),
        (
            "",
            "handshake.luau: the script has no function `handshake` (write",
        ),
        (
            "local function handshake(tls) end",
            "handshake.luau: the script has no function",
        ),
        (
            "handshake = 1",
            "handshake.luau: the script has no function `handshake`",
        ),
        (
            "log('x') function handshake(tls) end",
            "handshake.luau:1: nothing is looked up here",
        ),
        (
            "function handshake(tls) end\nwhile true do end",
            "handshake.luau:2: the script took too much CPU time ([hook] cpu)",
        ),
        (
            "function handshake(tls)\nend\nfrobnicate()",
            "handshake.luau:3: there is no global `frobnicate`",
        ),
    ] {
        let error = refused(script);
        assert!(error.starts_with(what), "{script:?}: {error}");
    }
}

#[tokio::test]
async fn names_that_are_not_there_fail_the_run_that_meets_them() {
    for (script, what) in [
        (
            "frobnicate()",
            "there is no global `frobnicate` (docs/hook.md",
        ),
        ("print('x')", "there is no global `print` (use log)"),
        (
            "os.execute('true')",
            "there is no global `os` (scripts are sandboxed)",
        ),
        (
            "coroutine.yield()",
            "there is no global `coroutine` (clients wait",
        ),
        (
            "tls:certficate('a')",
            "tls has no `certficate` (docs/hook.md lists",
        ),
        (
            "http.post('https://here/')",
            "http has no `post` (docs/hook.md lists",
        ),
        ("cache:put('a', 1, 60)", "cache has no `put` (docs/hook.md"),
        ("string.uper('a')", "attempt to call a nil value"),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(
            error.starts_with("handshake.luau:") && error.contains(what),
            "{script:?}: {error}"
        );
    }
}

#[tokio::test]
async fn names_of_the_script_and_names_that_no_run_meets_are_no_errors() {
    let (hook, _) = hook_with(
        "local own = {name = 'a'}
        function own:greet() return self.name:upper() end
        function helper() return own:greet() end
        function handshake(tls)
            if tls.client_port == 1 then frobnicate() ; http.post() ; string.uper('a') end
            log(helper(), ('x'):rep(3))
        end",
        |_| {},
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(
        (&*report.log, report.error),
        (&["A xxx".to_owned()][..], None)
    );
}

#[tokio::test]
async fn nothing_outside_of_the_sandbox_is_there() {
    for name in [
        "os",
        "io",
        "debug",
        "require",
        "loadstring",
        "load",
        "dofile",
        "getfenv",
        "setfenv",
        "collectgarbage",
        "coroutine",
        "print",
        "package",
    ] {
        let script = format!("function handshake(tls)\nlocal x = _G[{name:?}]\nend");
        let (hook, _) = hook_with(&script, |_| {});
        let error = failure(&hook).await;
        let wanted = format!("handshake.luau:2: there is no global `{name}` (");
        assert!(error.starts_with(&wanted), "{error}");
    }
}

#[tokio::test]
async fn nothing_shared_can_be_changed() {
    for script in [
        "getmetatable('').__index.upper = nil",
        "getmetatable('').__index = {}",
        "string.upper = nil",
        "_G.string = nil",
        "shared = 1",
        "handshake = nil",
        "rawset(_G, 'shared', 1)",
        "rawset(string, 'upper', nil)",
        "setmetatable(_G, {})",
        "tls.server_name = 'other.example'",
        "rawset(tls, 'use', nil)",
        "setmetatable(tls, {})",
        "cache.get = nil",
        "http.get = nil",
        "setmetatable(http, {})",
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(
            error.contains("readonly") || error.contains("protected"),
            "{script}: {error}"
        );
    }
    let (hook, _) = body(
        "log(getmetatable(_G), getmetatable(tls), getmetatable(redis('redis://here')))
        log(getmetatable(http), getmetatable(cache))",
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.log, ["false false false", "false false"]);
}
