//! Tests of what a script sees and chooses.

use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use sekisho_hook::{Choice, OnError, Source};
use tokio::time::Instant;

use crate::fake::{ask, body, failure, hello_of, hook_with, made, report};

#[tokio::test]
async fn each_choice_reaches_the_server() {
    let (hook, _) = body(
        r#"
        local name = tls.server_name
        if name == "use.example" then tls:use("OTHER.example") end
        if name == "default.example" then tls:default() end
        if name == "refuse.example" then tls:refuse() end
        if name == "denied.example" then tls:refuse("access_denied") end
        if name == "number.example" then tls:refuse(40) end
        "#,
    );
    for (name, chosen) in [
        ("none.example", "Lookup"),
        ("use.example", "Use(\"other.example\")"),
        ("default.example", "Default"),
        ("refuse.example", "Refuse(112)"),
        ("denied.example", "Refuse(49)"),
        ("number.example", "Refuse(40)"),
    ] {
        let answer = ask(&hook, name).await;
        assert_eq!(format!("{:?}", answer.choice), chosen, "{name}");
        assert_eq!(answer.source, Source::Script);
    }
}

#[tokio::test]
async fn a_script_sees_the_hello() {
    let (hook, _) = body(
        r#"
        log(tls.server_name, tls.client_addr, tls.client_port, tls.local_addr, tls.local_port)
        log(table.concat(tls.alpn, ","), table.concat(tls.signature_schemes, ","))
        log(table.concat(tls.cipher_suites, ","), table.concat(tls.named_groups, ","))
        "#,
    );
    let mut hello = hello_of(None, "[::ffff:192.0.2.7]:4711");
    let facts = Arc::make_mut(&mut hello.facts);
    facts.alpn = [Box::from(*b"h2"), Box::from(*b"http/1.1")].into();
    facts.signature_schemes = [0x0403, 0x0804, 0x0999].into();
    facts.cipher_suites = [0x1301].into();
    facts.named_groups = [0x11ec, 0x001d].into();
    let deadline = Instant::now() + Duration::from_secs(10);
    let (_, report) = hook.report(Arc::new(hello), deadline).await;
    assert_eq!(report.error, None);
    assert_eq!(
        report.log,
        [
            "nil 192.0.2.7 4711 127.0.0.1 443",
            "h2,http/1.1 ecdsa_secp256r1_sha256,rsa_pss_rsae_sha256,0x0999",
            "TLS_AES_128_GCM_SHA256 X25519MLKEM768,x25519",
        ]
    );
}

#[tokio::test]
async fn two_pairs_and_their_owner_become_one_certificate() {
    let (hook, _) = body(
        r#"
        local function pem(kind, name)
            return "-----BEGIN " .. kind .. "-----\n" .. name .. "\n"
        end
        tls:tenant("acme")
        tls:site('{"redirect": "https://other.example"}')
        tls:certificate(pem("CERTIFICATE", "a"))
        tls:certificate(pem("CERTIFICATE", "b"))
        tls:certificate_key(pem("PRIVATE KEY", "a"))
        tls:certificate_key(pem("PRIVATE KEY", "b"))
        "#,
    );
    let answer = ask(&hook, "shop.example").await;
    let made = made(&answer);
    assert_eq!(made.subjects, ["a", "b"]);
    assert_eq!(made.tenant, "acme");
    assert!(made.site.as_deref().unwrap().contains("redirect"));
}

#[tokio::test]
async fn a_pair_that_does_not_match_fails_the_run() {
    for (script, what) in [
        (
            r#"tls:certificate("-----BEGIN X\na\n") tls:certificate_key("-----BEGIN X\nb\n")"#,
            "the key does not belong to the certificate",
        ),
        (
            r#"tls:certificate("-----BEGIN X\na\n")"#,
            "1 certificates with 0 keys",
        ),
        (
            r#"for i = 1, 3 do tls:certificate("-----BEGIN X\na\n") end"#,
            "at most two certificates",
        ),
        (
            r#"tls:certificate("-----BEGIN " .. string.rep("x", 1024 * 1024))"#,
            "at most 262144 bytes",
        ),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.contains(what), "{error}");
    }
}

#[tokio::test]
async fn misuse_names_line_and_hint() {
    for (script, what) in [
        (
            r#"tls:use("a.example") tls:default()"#,
            "handshake.luau:2: the run has chosen already",
        ),
        (
            r#"tls.use("a.example")"#,
            "handshake.luau:2: tls:use needs what it is called on (write a colon, not a dot)",
        ),
        (
            "tls:use(nil)",
            "handshake.luau:2: tls:use: name must be a string, not nil",
        ),
        (
            r#"tls:use("*.example")"#,
            "handshake.luau:2: tls:use needs a host name",
        ),
        (
            r#"tls:refuse("close_notify")"#,
            "handshake.luau:2: tls:refuse: alert must be a name",
        ),
        (
            r#"tls:refuse(0)"#,
            "handshake.luau:2: tls:refuse: alert must be a name",
        ),
        (
            r#"local x = tls.sni"#,
            "handshake.luau:2: tls has no `sni` (docs/hook.md lists its fields and methods)",
        ),
        (
            r#"error("with\n\u{202e}controls")"#,
            "handshake.luau:2: with\\n\\u{202e}controls",
        ),
        (
            r#"local x = nil; x.y = 1"#,
            "handshake.luau:2: attempt to index nil",
        ),
    ] {
        let (hook, _) = body(script);
        let error = failure(&hook).await;
        assert!(error.starts_with(what), "{error}");
    }
}

#[tokio::test]
async fn on_error_decides_what_a_failed_run_gets() {
    for (on_error, chosen) in [
        (OnError::Refuse, "Refuse(80)"),
        (OnError::Lookup, "Lookup"),
        (OnError::Default, "Default"),
    ] {
        let script = "function handshake(tls) error('no') end";
        let (hook, _) = hook_with(script, |settings| settings.on_error = on_error);
        let answer = ask(&hook, "shop.example").await;
        assert_eq!(format!("{:?}", answer.choice), chosen);
        assert_eq!(answer.source, Source::Failed);
        assert!(answer.until <= Instant::now() + Duration::from_secs(10));
    }
}

#[tokio::test]
async fn lookups_never_mix_absent_and_failed() {
    let (hook, _) = body("log(tls:lookup(tls.server_name))");
    for (name, answer) in [
        ("there.example", "found nil"),
        ("nobody.example", "absent nil"),
        ("down.example", "failed the store is down"),
    ] {
        let (_, report) = report(&hook, name).await;
        assert_eq!(report.log, [answer]);
        assert_eq!(report.calls[0].what, format!("tls:lookup({name})"));
    }
}

#[tokio::test]
async fn a_lookup_that_the_cache_answers_waits_for_nothing() {
    let (hook, world) = body(
        r#"
        local word, why = tls:lookup(tls.server_name)
        if word == "found" and why == nil then
            tls:use("found.example")
        elseif word == "absent" and why == nil then
            tls:default()
        end
        "#,
    );
    let answer = ask(&hook, "there.example").await;
    assert!(matches!(answer.choice, Choice::Use(name) if name.as_str() == "found.example"));
    let answer = ask(&hook, "gone.example").await;
    assert!(matches!(answer.choice, Choice::Default));
    assert_eq!(world.lookups.load(SeqCst), 0);
    let answer = ask(&hook, "cold.example").await;
    assert!(matches!(answer.choice, Choice::Default));
    let answer = ask(&hook, "down.example").await;
    assert!(matches!(answer.choice, Choice::Lookup));
    assert_eq!(world.lookups.load(SeqCst), 2);
}

#[tokio::test]
async fn names_full_of_format_characters_are_logged_safely() {
    let (hook, _) = body(r#"log("a\r\nforged\27[2J\u{202e}%s%n")"#);
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.log, ["a\\r\\nforged\\u{1b}[2J\\u{202e}%s%n"]);
}

#[tokio::test]
async fn test_functions_run_by_themselves() {
    let script = "function handshake(tls) tls:use('a.example') end
        function test()
            local used
            handshake({use = function(_, name) used = name end})
            assert(used == 'a.example')
            log('tested')
        end";
    let (hook, _) = hook_with(script, |_| {});
    let report = hook.test().await.expect("a test");
    assert_eq!(report.error, None);
    assert_eq!(report.log, ["tested"]);
    let script = "function handshake(tls) end function test() assert(1 == 2) end";
    let (hook, _) = hook_with(script, |_| {});
    let error = hook.test().await.expect("a test").error;
    assert_eq!(
        error.as_deref(),
        Some("handshake.luau:1: assertion failed!")
    );
    let (hook, _) = body("");
    assert!(hook.test().await.is_none());
}

#[tokio::test]
async fn a_choice_holds_for_the_time_of_the_settings() {
    let script = "function handshake(tls) tls:use('a.example') end";
    let (hook, _) = hook_with(script, |settings| settings.keep = Duration::from_secs(7));
    let before = Instant::now();
    let answer = ask(&hook, "shop.example").await;
    let held = answer.until - before;
    assert!((Duration::from_secs(7)..Duration::from_secs(8)).contains(&held));
}

#[tokio::test]
async fn each_worker_has_a_state_of_its_own() {
    let script = "local count = 0 function handshake(tls) count += 1 log(count) end";
    let (hook, _) = hook_with(script, |_| {});
    let hook = Arc::new(hook);
    let (_, first) = report(&hook, "shop.example").await;
    let (_, second) = report(&hook, "shop.example").await;
    let other = {
        let hook = Arc::clone(&hook);
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(report(&hook, "shop.example")).1
        })
    };
    assert_eq!(first.log, ["1"]);
    assert_eq!(second.log, ["2"]);
    assert_eq!(other.join().unwrap().log, ["1"]);
}

/// Bytes that a client or a store chose can't fail a run.
#[tokio::test]
async fn a_log_takes_any_value() {
    let (hook, _) = body(
        r"log('a\xffb', nil, 1)
        log(string.rep('\xc3', 1e6))
        log(setmetatable({}, {__tostring = function() error('no') end}))
        log(setmetatable({}, {__tostring = function() return '\xff' end}))
        log(string.rep('x', 1023) .. 'äy', 'z')",
    );
    let (_, report) = report(&hook, "shop.example").await;
    assert_eq!(report.error, None);
    assert_eq!(report.log[0], "a\u{fffd}b nil 1");
    assert_eq!(report.log[1], "\u{fffd}".repeat(341));
    assert_eq!(report.log[2..4], ["table", "table"]);
    assert_eq!(report.log[4].len(), 1023);
}
