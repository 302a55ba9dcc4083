//! Tests imports from Redis.

use std::process::Stdio;

use sekisho_testkit::{Cut, Key, Proxy, RedisServer};

use crate::sandbox::{Ran, SOON, Sandbox, ca, until};

#[test]
fn keys_of_each_kind_are_imported() {
    let redis = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let put = |host: &str, chain: &str, key: &str| {
        let pair = ca().issue(&[host], Key::P256);
        redis.set(chain, &pair.chain_pem());
        redis.set(key, &pair.key_pem());
    };
    // More pairs than a page has keys, and a prefix that is a pattern.
    for number in 0..300 {
        let host = format!("h{number}.example");
        put(&host, &format!("p*:{host}.crt"), &format!("p*:{host}.key"));
    }
    put(
        "other.example",
        "pp:other.example.crt",
        "pp:other.example.key",
    );
    redis.set("p*:half.example.crt", "");
    let sandbox = Sandbox::new();
    let import = ["cert", "import", &url, "--prefix", "p*:"];
    let ran = sandbox.run(&import);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("imported 300,"), "{}", ran.out);
    let told = "p*:half.example.crt: its key is missing";
    assert!(ran.err.contains(told), "{}", ran.err);
    redis.cli(&["setrange", "large:a.example.crt", "262144", "x"]);
    redis.set("large:a.example.key", "x");
    redis.cli(&["lpush", "list:a.example.crt", "x"]);
    for (prefix, told) in [
        ("large:", "is larger than 256 KiB"),
        ("list:", "holds no string"),
    ] {
        let error = sandbox.fails(&["cert", "import", &url, "--prefix", prefix]);
        assert!(error.contains(told), "{error}");
    }

    let pair = ca().issue(&["a.example"], Key::P256);
    let (chain, key) = (pair.chain_pem(), pair.key_pem());
    let auto_ssl = serde_json::json!({"fullchain_pem": chain, "privkey_pem": key});
    let resty_acme = serde_json::json!({"cert": chain, "pkey": key, "type": "rsa"});
    redis.set("a.example:latest", &auto_ssl.to_string());
    redis.set("domain:rsa:a.example", &resty_acme.to_string());
    for (layout, counts) in [("auto-ssl", "imported 1,"), ("resty-acme", "skipped 1")] {
        let out = sandbox.ok(&["cert", "import", "--layout", layout, &url]);
        assert!(out.contains(counts), "{layout}: {out}");
    }
    let error = sandbox.fails(&["cert", "import", &url, "--prefix", "none:"]);
    assert!(error.contains("no pairs of the layout redis"), "{error}");
}

#[test]
fn a_server_that_is_gone_is_told_without_its_password() {
    let mut redis = RedisServer::start();
    redis.kill();
    let url = format!("redis://:s3same@127.0.0.1:{}", redis.port());
    let sandbox = Sandbox::new();
    let error = sandbox.fails(&["cert", "import", &url]);
    assert!(error.contains("refused"), "{error}");
    assert!(!error.contains("s3same"), "{error}");
}

/// A server that is started again may lack keys, and numbers its pages otherwise.
#[test]
fn a_connection_lost_in_scan_ends_the_import_and_removes_nothing() {
    // More than the import takes before its first transaction.
    const HOSTS: usize = 8000;
    let redis = RedisServer::start();
    let proxy = Proxy::before(redis.port());
    let pair = ca().issue(&["*.a.example"], Key::P256);
    let (chain, key) = (pair.chain_pem(), pair.key_pem());
    let both = [("crt", chain), ("key", key)];
    // One call sets them all.
    let values: Vec<_> = (0..HOSTS)
        .flat_map(|number| both.each_ref().map(|(ending, text)| (number, ending, text)))
        .flat_map(|(number, ending, text)| [format!("h{number}.a.example.{ending}"), text.clone()])
        .collect();
    for some in values.chunks(200) {
        let some: Vec<_> = some.iter().map(String::as_str).collect();
        redis.cli(&[&["mset"][..], &some[..]].concat());
    }
    let sandbox = Sandbox::new();
    sandbox.import(&["first.example"]);
    let url = format!("redis://127.0.0.1:{}", proxy.port());
    let args = ["cert", "import", &url, "--named-only", "--prune"];
    // The first transaction is kept waiting, and with it the reader of the pages.
    let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch("BEGIN IMMEDIATE").expect("a writer");
    let mut import = sandbox.command(&args);
    let import = import.stdout(Stdio::piped()).stderr(Stdio::piped());
    let import = import.spawn().expect("the binary runs");
    until("the first pages are read", SOON, || {
        redis
            .cli(&["info", "commandstats"])
            .contains("cmdstat_mget")
    });
    proxy.cut(Cut::Reset);
    store.execute_batch("ROLLBACK").expect("a writer");
    let ran = Ran::of(&import.wait_with_output().expect("it ends"));
    assert_eq!(ran.code, Some(1), "{}{}", ran.out, ran.err);
    let told = "nothing is removed: the hosts of redis://";
    assert!(ran.err.contains(told), "{}", ran.err);
    // Run again, it goes on.
    proxy.open();
    sandbox.ok(&args);
    let hosts = sandbox.ok(&["host", "list"]).lines().count();
    assert_eq!(hosts, HOSTS + 1);
}

/// Keys with another prefix are another source.
#[test]
fn what_another_prefix_brought_stays() {
    let redis = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", redis.port());
    for (prefix, host) in [("a:", "a.example"), ("b:", "b.example")] {
        let pair = ca().issue(&[host], Key::P256);
        redis.set(&format!("{prefix}{host}.crt"), &pair.chain_pem());
        redis.set(&format!("{prefix}{host}.key"), &pair.key_pem());
    }
    let sandbox = Sandbox::new();
    for prefix in ["a:", "b:", "a:"] {
        let out = sandbox.ok(&["cert", "import", &url, "--prefix", prefix, "--prune"]);
        assert!(!out.contains("removed"), "{out}");
    }
    assert_eq!(sandbox.ok(&["host", "list"]).lines().count(), 2);
}
