//! Tests `sekisho cert` with single certificates.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use sekisho_testkit::Key;
use serde_json::{Value, json};

use crate::sandbox::{Sandbox, ca};

#[test]
fn a_pair_creates_store_key_and_hosts() {
    let sandbox = Sandbox::new();
    sandbox.pair("a", &["a.example", "*.a.example"], Key::P256);
    let ran = sandbox.run(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(
        ran.out.contains("imported 1, replaced 0, skipped 0"),
        "{}",
        ran.out
    );
    assert!(
        ran.err.contains("created") && ran.err.contains("master.key"),
        "{}",
        ran.err
    );
    for file in ["hosts.db", "master.key"] {
        let mode = fs::metadata(sandbox.path(file))
            .expect(file)
            .permissions()
            .mode();
        assert_eq!(mode & 0o777, 0o600, "{file}");
    }
    let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
    assert_eq!(shown[0]["names"], json!(["a.example", "*.a.example"]));
    assert_eq!(shown[0]["type"], "ecdsa");
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(list[0], shown[0]);
    let id = shown[0]["id"].as_str().expect("an id");
    assert_eq!(sandbox.json(&["cert", "show", id, "--json"]), shown[0]);
    let text = sandbox.ok(&["cert", "show", id]);
    assert!(
        text.contains("used by     *.a.example\nused by     a.example"),
        "{text}"
    );

    let again = sandbox.ok(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
    assert!(
        again.contains("imported 0, replaced 0, skipped 1"),
        "{again}"
    );
}

#[test]
fn only_the_named_hosts_are_pointed_at_it() {
    let sandbox = Sandbox::new();
    let credentials =
        |host: &str| sandbox.json(&["host", "show", host, "--json"])["credentials"].clone();
    sandbox.import(&["a.example", "b.example"]);
    let first = credentials("a.example");
    assert_eq!(first, credentials("b.example"));

    sandbox.pair("next", &["a.example", "b.example"], Key::P256);
    let import = [
        "cert", "import", "--chain", "next.crt", "--key", "next.key", "--host",
    ];
    let out = sandbox.ok(&[&import[..], &["a.example"]].concat());
    assert!(out.contains("replaced 1"), "{out}");
    assert_ne!(credentials("a.example"), first);
    assert_eq!(credentials("b.example"), first);

    sandbox.import_type(&["a.example"], Key::Rsa2048);
    let both = credentials("a.example");
    assert!(
        both["ecdsa"].is_string() && both["rsa"].is_string(),
        "{both}"
    );
    let error = sandbox.fails(&[&import[..], &["c.example"]].concat());
    assert!(error.contains("not for c.example"), "{error}");
}

#[test]
fn the_last_reference_takes_the_certificate_with_it() {
    let sandbox = Sandbox::new();
    let list = || {
        sandbox
            .json(&["cert", "list", "--json"])
            .as_array()
            .map(Vec::len)
    };
    sandbox.import(&["a.example", "b.example"]);
    sandbox.import_type(&["a.example"], Key::Rsa2048);
    assert_eq!(list(), Some(2));
    sandbox.ok(&["cert", "remove", "a.example", "--type", "ecdsa"]);
    assert_eq!(list(), Some(2), "b.example still refers to it");
    let error = sandbox.fails(&["cert", "remove", "a.example", "--type", "ecdsa"]);
    assert!(
        error.contains("a.example has no ecdsa certificate"),
        "{error}"
    );
    sandbox.ok(&["cert", "remove", "a.example"]);
    assert_eq!(list(), Some(1));
    sandbox.ok(&["host", "remove", "b.example"]);
    assert_eq!(list(), Some(0));

    sandbox.import(&["c.example", "d.example"]);
    let id = sandbox.json(&["cert", "list", "--json"])[0]["id"].clone();
    sandbox.ok(&["cert", "remove", id.as_str().expect("an id")]);
    assert_eq!(list(), Some(0));
    let host = sandbox.json(&["host", "show", "d.example", "--json"]);
    assert_eq!(host["credentials"], json!({}));
}

#[test]
fn a_key_leaves_only_when_asked_for() {
    let sandbox = Sandbox::new();
    for (key, label) in [(Key::P256, "PRIVATE KEY"), (Key::Ed25519, "PRIVATE KEY")] {
        let pair = ca().issue(&["a.example"], key);
        sandbox.write("a.crt", &pair.chain_pem());
        sandbox.write("a.key", &pair.key_pem());
        sandbox.ok(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
        let (chain, key) = (lines(&pair.chain_pem()), lines(&pair.key_pem()));
        let id = sandbox.json(&["cert", "list", "--json"]);
        let id = last_id(&id);
        assert_eq!(lines(&sandbox.ok(&["cert", "export", &id])), chain);
        let with_key = lines(&sandbox.ok(&["cert", "export", &id, "--with-key"]));
        assert_eq!(with_key, [chain, key].concat());
        assert!(with_key.concat().contains(label));
    }
    let error = sandbox.fails(&["cert", "export", "a.example"]);
    assert!(error.contains("--type"), "{error}");
    sandbox.ok(&["cert", "export", "a.example", "--type", "ed25519"]);

    let every_word = [
        sandbox.ok(&["cert", "show", "a.example"]),
        sandbox.ok(&["cert", "show", "a.example", "--json"]),
        sandbox.ok(&["cert", "list"]),
        sandbox.ok(&["host", "show", "a.example", "--json"]),
    ];
    assert!(!every_word.concat().contains("PRIVATE"));
}

#[test]
fn a_bad_pair_is_refused_with_file_and_reason() {
    let sandbox = Sandbox::new();
    sandbox.import(&["kept.example"]);
    let good = ca().issue(&["a.example"], Key::P256);
    let other = ca().issue(&["a.example"], Key::P256);
    let expired = ca().issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    let early = ca().issue_valid(&["a.example"], Key::P256, (2110, 1, 1), (2111, 1, 1));
    let (chain, key) = (good.chain_pem(), good.key_pem());
    let cut = &chain[..chain.len() / 4];
    let rubbish = "rubbish\n".repeat(130_000);
    let twisted: String = chain.replace("MII", "NII");
    for (chain, key, file, says) in [
        ("", &*key, "a.crt", "no certificate"),
        (cut, &key, "a.crt", ""),
        (&twisted, &key, "a.crt", ""),
        (&rubbish, &key, "a.crt", "larger than"),
        (&chain, "", "a.key", "no private key"),
        (&chain, &key[..key.len() / 2], "a.key", ""),
        (&chain, &other.key_pem(), "a.key", "does not belong"),
        (
            &expired.chain_pem(),
            &expired.key_pem(),
            "a.crt",
            "expired on 2021-01-01T",
        ),
        (
            &early.chain_pem(),
            &early.key_pem(),
            "a.crt",
            "not valid before",
        ),
    ] {
        sandbox.write("a.crt", chain);
        sandbox.write("a.key", key);
        let error = sandbox.fails(&["cert", "import", "--chain", "a.crt", "--key", "a.key"]);
        assert!(
            error.contains(file) && error.contains(says),
            "{file} {says}: {error}"
        );
    }
    let error = sandbox.fails(&["cert", "import", "--chain", "no.crt", "--key", "a.key"]);
    assert!(error.contains("no.crt: is missing"), "{error}");
    let names: Value = sandbox.json(&["host", "list", "--json"]);
    assert_eq!(
        names.as_array().map(Vec::len),
        Some(1),
        "nothing bad was stored: {names}"
    );
}

#[test]
fn an_expired_pair_is_taken_when_asked_to() {
    let sandbox = Sandbox::new();
    let expired = ca().issue_valid(&["a.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    sandbox.write("a.crt", &expired.chain_pem());
    sandbox.write("a.key", &expired.key_pem());
    sandbox.ok(&[
        "cert",
        "import",
        "--chain",
        "a.crt",
        "--key",
        "a.key",
        "--allow-expired",
    ]);
    let shown = sandbox.json(&["cert", "show", "a.example", "--json"]);
    assert_eq!(shown[0]["not_after"], "2021-01-01T00:00:00Z");
}

fn last_id(list: &Value) -> String {
    let list = list.as_array().expect("an array");
    list[list.len() - 1]["id"]
        .as_str()
        .expect("an id")
        .to_owned()
}

/// Splits PEM into lines, to ignore differences in line ends.
fn lines(pem: &str) -> Vec<String> {
    pem.lines().map(str::to_owned).collect()
}
