//! Tests imports from Redis.

use sekisho_testkit::{Key, RedisServer};

use crate::sandbox::{Sandbox, ca};

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
    for number in 0..600 {
        let host = format!("h{number}.example");
        put(&host, &format!("p*:{host}.crt"), &format!("p*:{host}.key"));
    }
    put("other.example", "pp:other.example.crt", "pp:other.example.key");
    redis.set("p*:half.example.crt", "");
    let sandbox = Sandbox::new();
    let import = ["cert", "import", &url, "--prefix", "p*:"];
    let ran = sandbox.run(&import);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("imported 600,"), "{}", ran.out);
    let told = "p*:half.example.crt: its key is missing";
    assert!(ran.err.contains(told), "{}", ran.err);

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
