//! Tests `sekisho hook test`.

use sekisho_testkit::{Key, RedisServer, TestCa};

use crate::redis::put;
use crate::sandbox::{Sandbox, ca};

#[test]
fn a_run_says_what_it_did_and_chose() {
    let redis = RedisServer::start();
    put(&redis, "a.example");
    let sandbox = Sandbox::new();
    sandbox.configure("[hook]\nscript = \"handshake.luau\"\n");
    sandbox.import_type(&["b.example"], Key::Rsa2048);
    let script = r#"
        local certificates = redis("REDIS")
        function handshake(tls)
            local name = tls.server_name
            log("asked for", name, "from", tls.client_addr, tls.alpn[1])
            if name == "c.example" then
                return tls:use("b.example")
            elseif name == "d.example" then
                return tls:refuse("access_denied")
            elseif name == "e.example" then
                error("no such customer")
            end
            tls:cached(name, 60, function()
                local chain, key = certificates:mget(name .. ".crt", name .. ".key")
                if chain and key then
                    tls:tenant("acme")
                    tls:certificate(chain)
                    tls:certificate_key(key)
                end
            end)
        end"#;
    let url = format!("redis://127.0.0.1:{}", redis.port());
    sandbox.write("handshake.luau", &script.replace("REDIS", &url));
    let test = |name: &str, more: &[&str]| {
        let arguments = [&["hook", "test", "--name", name][..], more].concat();
        sandbox.run(&arguments)
    };
    let ran = test("a.example", &["--times", "2", "--client", "192.0.2.7"]);
    let (first, second) = ran.out.split_once("run 2\n").expect("two runs");
    for wanted in [
        "log     asked for a.example from 192.0.2.7 h2\n",
        "call    redis MGET",
        "cached  \"a.example\": loaded\n",
        "chose   a certificate (ECDSA) of tenant acme (by the script; a connection keeps it for 60 s)",
        "KiB in the state",
    ] {
        assert!(first.contains(wanted), "{wanted}: {first}");
    }
    assert!(second.contains("cached  \"a.example\": hit\n"), "{second}");
    assert!(
        second.contains("(by tls:cached;") && !second.contains("call"),
        "{second}"
    );
    for (name, wanted) in [
        (
            "b.example",
            "chose   the ordinary lookup: b.example: a certificate (RSA) of the operator",
        ),
        ("c.example", "chose   host b.example: a certificate (RSA)"),
        ("d.example", "chose   alert 49 (AccessDenied)"),
        ("f.example", "the ordinary lookup: f.example: not there"),
    ] {
        let ran = test(name, &[]);
        assert_eq!(ran.code, Some(0), "{}", ran.err);
        assert!(ran.out.contains(wanted), "{}", ran.out);
    }
    let ran = test("e.example", &[]);
    assert_eq!(ran.code, Some(1));
    assert!(
        ran.out
            .contains("chose   alert 80 (InternalError) (by [hook] on_error)")
    );
    assert!(
        ran.err.contains("handshake.luau:11: no such customer"),
        "{}",
        ran.err
    );
}

/// A server takes a script's chain by its names alone where nothing keeps it. A try tells
/// what clients will find wrong.
#[test]
fn a_try_verifies_signatures_and_says_what_has_expired() {
    let sandbox = Sandbox::new();
    sandbox.configure("[hook]\nscript = \"handshake.luau\"\nfolders = [\"certs\"]\n");
    sandbox.write(
        "handshake.luau",
        "function handshake(tls)
            tls:certificate(tls.server_name .. '.crt')
            tls:certificate_key(tls.server_name .. '.key')
        end",
    );
    sandbox.import(&["a.example"]);
    let wrong = ca().issue(&["wrong.example"], Key::P256);
    let other = TestCa::new().issue(&["wrong.example"], Key::P256);
    let issuer = other.chain_pem().replace(&other.leaf_pem(), "");
    let old = ca().issue_valid(&["old.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    for (name, chain, key) in [
        ("wrong.example", wrong.leaf_pem() + &issuer, wrong.key_pem()),
        ("old.example", old.chain_pem(), old.key_pem()),
    ] {
        sandbox.write(&format!("certs/{name}.crt"), &chain);
        sandbox.write(&format!("certs/{name}.key"), &key);
    }
    let ran = sandbox.run(&["hook", "test", "--name", "wrong.example"]);
    assert_eq!(ran.code, Some(1), "{}", ran.out);
    assert!(ran.err.contains("has another key"), "{}", ran.err);
    let ran = sandbox.run(&["hook", "test", "--name", "old.example"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    let wanted = "a certificate (ECDSA, expired) of the operator";
    assert!(ran.out.contains(wanted), "{}", ran.out);
    let (_, cost) = ran.out.split_once("of it ").expect("a cost");
    assert!(!cost.starts_with("0 "), "{}", ran.out);
    let server = sandbox.serve();
    for name in ["old.example", "wrong.example"] {
        let seen = server.refusal(name);
        assert!(seen.contains("invalid peer certificate"), "{seen}");
    }
    server.stop();
}

#[test]
fn without_a_hook_or_with_a_bad_name_it_says_what_to_do() {
    let sandbox = Sandbox::new();
    let error = sandbox.fails(&["hook", "test", "--name", "a.example"]);
    assert!(error.contains("script = \"handshake.luau\""), "{error}");
    let ran = sandbox.run(&["hook", "test", "--name", "a b"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}
