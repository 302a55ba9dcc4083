//! Tests `[hook]`: a script that chooses what handshakes get.

use std::os::unix::fs::PermissionsExt;

use sekisho_testkit::{Key, RedisServer};

use crate::sandbox::{SOON, Sandbox, Server, until};

const HOOK: &str = "[hook]\nscript = \"handshake.luau\"\nfolders = [\"certs\"]\n";

/// Makes a sandbox with this script and the host `a.example`.
fn sandbox(script: &str) -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.configure(HOOK);
    sandbox.write("handshake.luau", script);
    sandbox.pair("certs/shop", &["shop.example", "other.example"], Key::P256);
    for host in ["a.example", "b.example", "shop.example", "other.example"] {
        sandbox.page(host, &format!("page of {host}"));
    }
    sandbox.import(&["a.example", "b.example"]);
    sandbox
}

fn runs(server: &Server, outcome: &str) -> f64 {
    let name = format!("sekisho_hook_runs_total{{outcome=\"{outcome}\"}}");
    server.metric(&name).expect("a metric")
}

#[test]
fn a_script_chooses_what_handshakes_get() {
    let sandbox = sandbox(
        "function handshake(tls)
            local name = tls.server_name
            if name == 'shop.example' then
                tls:certificate('shop.crt')
                tls:certificate_key('shop.key')
            elseif name == 'other.example' then
                tls:cached('other', 60, function()
                    tls:tenant('t')
                    tls:site('{\"status\": 410}')
                    tls:certificate('shop.crt')
                    tls:certificate_key('shop.key')
                end)
            elseif name == 'b.example' then
                tls:use('a.example')
            elseif name == 'refused.example' then
                tls:refuse('access_denied')
            elseif name == 'broken.example' then
                error('as the test wants')
            elseif name == 'looked.example' then
                if tls:lookup('a.example') ~= 'found' then error('not there') end
                if tls:lookup('absent.example') ~= 'absent' then error('there') end
                tls:refuse('unrecognized_name')
            end
        end",
    );
    sandbox.ok(&["check"]);
    let server = sandbox.serve();
    for host in ["a.example", "b.example", "shop.example"] {
        let page = format!("page of {host}");
        assert!(server.shows(host, &page), "{:?}", server.fetch(host));
    }
    for _ in 0..2 {
        let answer = server.fetch("other.example").expect("an answer");
        assert!(answer.starts_with("HTTP/1.1 410"), "{answer}");
    }
    for (host, alert) in [
        ("refused.example", "AccessDenied"),
        ("broken.example", "InternalError"),
        ("looked.example", "UnrecognisedName"),
        ("absent.example", "UnrecognisedName"),
    ] {
        let seen = server.refusal(host);
        assert!(seen.contains(alert), "{host}: {seen}");
    }
    assert!(runs(&server, "error") >= 1.0, "{}", server.ask("/metrics"));
    until("the error is logged", SOON, || {
        server.log().contains("as the test wants")
    });
    server.stop();
}

/// Calls of a script that lead to nothing are charged to the client's network, also
/// where the absence itself is cached.
#[test]
fn unknown_names_cost_a_network_no_more_calls_than_its_budget() {
    let redis = RedisServer::start();
    redis.set("b.example", "a.example");
    let script = format!(
        "local r = redis('redis://127.0.0.1:{}')
        function handshake(tls)
            local host = r:get(tls.server_name)
            if host then tls:use(host) end
        end",
        redis.port()
    );
    for names in [
        &["one.example"; 4][..],
        &["1.example", "2.example", "3.example", "4.example"],
    ] {
        let sandbox = sandbox(&script);
        let server = "[server]\nabsent_per_prefix = 3\nhandshake_timeout = \"2s\"\n";
        sandbox.configure(&format!("{HOOK}{server}"));
        let server = sandbox.serve();
        redis.cli(&["CONFIG", "RESETSTAT"]);
        for _ in 0..5 {
            assert!(server.shows("b.example", "page of b.example"));
        }
        for name in &names[..3] {
            let seen = server.refusal(name);
            assert!(seen.contains("UnrecognisedName"), "{name}: {seen}");
        }
        let seen = server.refusal(names[3]);
        assert!(seen.contains("InternalError"), "{seen}");
        assert!(runs(&server, "overloaded") >= 1.0, "{}", server.log());
        let calls = redis.cli(&["INFO", "commandstats"]);
        assert!(
            calls.contains("cmdstat_mget:calls=8,") || calls.contains("cmdstat_get:calls=8,"),
            "{calls}"
        );
        server.stop();
    }
}

/// Runs that fail after a call are charged as unknown names are; hosts that the script
/// serves from its store are not, and what `tls:cached` has needs no budget.
#[test]
fn runs_that_fail_cost_a_network_no_more_calls_than_its_budget() {
    let redis = RedisServer::start();
    redis.set("b.example", "a.example");
    let script = format!(
        "local r = redis('redis://127.0.0.1:{}')
        function handshake(tls)
            local name = tls.server_name
            local function serve()
                if not r:get('b.example') then error('no store') end
                tls:certificate('shop.crt')
                tls:certificate_key('shop.key')
            end
            if name == 'shop.example' then return serve() end
            if name == 'other.example' then return tls:cached('k', 60, serve) end
            r:get(name)
            error('as the test wants')
        end",
        redis.port()
    );
    let sandbox = sandbox(&script);
    let server = "[server]\nabsent_per_prefix = 3\nhandshake_timeout = \"2s\"\n";
    sandbox.configure(&format!("{HOOK}{server}"));
    let server = sandbox.serve();
    for _ in 0..5 {
        assert!(server.shows("shop.example", "page of shop.example"));
    }
    assert!(server.shows("other.example", "page of other.example"));
    redis.cli(&["CONFIG", "RESETSTAT"]);
    for number in 0..4 {
        let seen = server.refusal(&format!("{number}.example"));
        assert!(seen.contains("InternalError"), "{seen}");
    }
    assert!(runs(&server, "error") >= 3.0, "{}", server.log());
    assert!(runs(&server, "overloaded") >= 1.0, "{}", server.log());
    let calls = redis.cli(&["INFO", "commandstats"]);
    assert!(
        calls.contains("cmdstat_mget:calls=3,") || calls.contains("cmdstat_get:calls=3,"),
        "{calls}"
    );
    assert!(server.shows("other.example", "page of other.example"));
    server.stop();
}

#[test]
fn a_script_that_others_may_write_is_warned_of() {
    let sandbox = sandbox("function handshake(tls) end");
    let warning = "[hook] script: it can be written by others (mode 666)";
    assert!(!sandbox.run(&["check"]).err.contains(warning));
    let mode = std::fs::Permissions::from_mode(0o666);
    std::fs::set_permissions(sandbox.path("handshake.luau"), mode).expect("ours");
    let ran = sandbox.run(&["check"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(ran.err.contains(warning), "{}", ran.err);
}

#[test]
fn a_wrong_script_keeps_the_server_from_starting() {
    for (script, expected) in [
        (
            "function handshake(tls)\n  tls:use(\nend",
            "handshake.luau:3",
        ),
        ("local function handshake(tls) end", "handshake"),
        (
            "function handshake(tls) end\nfunction test() error('told so') end",
            "told so",
        ),
    ] {
        let sandbox = sandbox(script);
        let error = sandbox.fails(&["check"]);
        assert!(error.contains(expected), "{error}");
        if expected != "told so" {
            let error = sandbox.fails(&["serve"]);
            assert!(error.contains(expected), "{error}");
        }
    }
    let sandbox = sandbox("");
    std::fs::remove_file(sandbox.path("handshake.luau")).expect("a file");
    let error = sandbox.fails(&["check"]);
    assert!(
        error.contains("[hook] script: ") && error.contains("handshake.luau"),
        "{error}"
    );
}
