//! Tests that commands order certificates from a real CA, while a server answers its
//! challenges.

use serde_json::{Value, json};
use tokio::runtime::Runtime;

use crate::first_access::Fixture;
use crate::sandbox::Sandbox;

#[test]
fn certificates_are_ordered_renewed_and_revoked() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    // The server only answers: what comes is what the commands ordered.
    fixture.configure(&fixture.acme("first_access = \"off\""));
    fixture.host("a.example");
    let server = sandbox.serve();
    let out = sandbox.ok(&["cert", "issue", "a.example", "b.example", "a.example"]);
    assert_eq!(out.lines().count(), 2, "{out}");
    assert!(
        out.contains("  until ") && out.contains("b.example"),
        "{out}"
    );
    fixture.assert_served(&server, "a.example");
    for name in ["a.example", "b.example"] {
        let lineage = &sandbox.json(&["host", "show", name, "--json"])["lineages"][0];
        assert_eq!(
            (&lineage["name"], &lineage["state"]),
            (&json!(name), &json!("scheduled"))
        );
    }

    let first = shown(sandbox, "a.example");
    let renewed = sandbox.ok(&["cert", "renew", "a.example"]);
    assert!(
        renewed.starts_with(first["id"].as_str().expect("an id")),
        "{renewed}"
    );
    let second = shown(sandbox, "a.example");
    assert_ne!(second["serial"], first["serial"]);
    fixture.assert_served(&server, "a.example");

    let revoke = [
        "cert",
        "revoke",
        "a.example",
        "--reason",
        "key-compromise",
        "--reissue",
    ];
    let out = sandbox.ok(&revoke);
    assert!(out.contains("revoked cert:"), "{out}");
    let third = shown(sandbox, "a.example");
    let status = |one: &Value| {
        let serial = one["serial"].as_str().expect("a serial").to_owned();
        let status = fixture.pebble.status(&serial);
        Runtime::new().expect("a runtime").block_on(status)
    };
    assert!(status(&second).contains("Revoked"), "{}", status(&second));
    assert!(status(&third).contains("Valid"), "{}", status(&third));
    fixture.assert_served(&server, "a.example");

    let ran = sandbox.run(&["cert", "revoke", "b.example"]);
    assert!(
        ran.err.contains("it is still served, and not renewed"),
        "{}",
        ran.err
    );
    let lineage = &sandbox.json(&["host", "show", "b.example", "--json"])["lineages"][0];
    assert_eq!(lineage["state"], "off");
    sandbox.import(&["imported.example"]);
    for command in ["renew", "revoke"] {
        let error = sandbox.fails(&["cert", command, "imported.example"]);
        assert!(error.contains("is not renewed here"), "{error}");
    }
}

#[test]
fn a_certificate_of_several_names_is_one() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    fixture.configure(&fixture.acme("first_access = \"off\""));
    sandbox.ok(&["host", "set", "owned.example", "--tenant", "anna"]);
    let _server = sandbox.serve();
    let together = |options: &[&str], names: &[&str]| {
        sandbox.ok(&[&["cert", "issue", "--together"], options, names].concat());
    };
    let names = ["b.example", "owned.example", "a.example"];
    together(&["--solver", "http-01", "--tenant", "anna"], &names);
    let id = shown(sandbox, "a.example")["id"].clone();
    for name in names {
        let host = sandbox.json(&["host", "show", name, "--json"]);
        assert_eq!(host["tenant"], "anna");
        assert_eq!(host["credentials"]["ecdsa"], id);
        let lineage = &host["lineages"][0];
        assert_eq!(lineage["name"], "b.example");
        assert_eq!(lineage["solver"], "http-01");
        let sorted = json!(["a.example", "b.example", "owned.example"]);
        assert_eq!(lineage["names"], sorted);
    }
    let error = sandbox.fails(&["cert", "issue", "a.example", "--tenant", "bert"]);
    let says = "belongs to the tenant \"anna\", not to \"bert\"";
    assert!(error.contains(says), "{error}");

    // A part of its names renews all of it; with more names it is another certificate.
    sandbox.ok(&["cert", "issue", "a.example"]);
    assert_eq!(shown(sandbox, "b.example")["id"], id);
    together(&[], &[&names[..], &["c.example"]].concat());
    let lineage = &sandbox.json(&["host", "show", "c.example", "--json"])["lineages"][0];
    assert_eq!(lineage["names"].as_array().map(Vec::len), Some(4));
    let same = shown(sandbox, "c.example")["id"].clone();
    assert_eq!(shown(sandbox, "b.example")["id"], same);
}

#[test]
fn a_host_may_have_certificates_of_two_key_types() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    fixture.configure(&fixture.acme("first_access = \"off\""));
    let issue = |args: &[&str]| sandbox.ok(&[&["cert"], args].concat());
    sandbox.ok(&["host", "set", "b.example"]);
    let _server = sandbox.serve();
    sandbox.ok(&["host", "set", "b.example", "--issue"]);
    let id = shown(sandbox, "b.example")["id"].clone();
    issue(&["issue", "b.example", "--key", "rsa", "--ca", "pebble"]);
    let both = sandbox.json(&["host", "show", "b.example", "--json"]);
    assert_eq!(both["credentials"]["ecdsa"], id);
    assert!(both["credentials"]["rsa"].is_string(), "{both}");
    assert_eq!(both["lineages"][1]["name"], "b.example+rsa");
    assert_eq!(both["lineages"][1]["ca"], "pebble");
    let renewed = issue(&["renew", "b.example"]);
    assert_eq!(renewed.lines().count(), 2, "both of them: {renewed}");
    let renewed = issue(&["renew", "b.example+rsa"]);
    assert_eq!(renewed.lines().count(), 1, "{renewed}");
}

#[test]
fn a_failed_order_says_what_to_do() {
    let fixture = Fixture::start("sqlite:hosts.db");
    let sandbox = &fixture.sandbox;
    fixture.configure("");
    for args in [
        ["cert", "issue", "a.example"],
        ["cert", "renew", "a.example"],
        ["cert", "revoke", "a.example"],
    ] {
        let error = sandbox.fails(&args);
        assert!(error.contains("sekisho.toml has no [acme]"), "{error}");
    }
    fixture.configure(&fixture.acme("solvers = [\"http-01\", \"tls-alpn-01\"]"));
    let error = sandbox.fails(&["cert", "issue", "a.example", "*.w.example"]);
    assert!(
        error.contains("a wildcard needs dns-01: add [acme.dns.\"w.example\"] for *.w.example"),
        "{error}"
    );
    for (option, value, known) in [
        ("--ca", "other", "[acme] cas has pebble"),
        (
            "--solver",
            "dns-01",
            "[acme] solvers has http-01, tls-alpn-01",
        ),
    ] {
        let ran = sandbox.run(&["cert", "issue", "a.example", option, value]);
        assert!(
            ran.code == Some(2) && ran.err.contains(known),
            "{}",
            ran.err
        );
    }
    let ran = sandbox.run(&["host", "set", "co.uk", "--issue"]);
    assert!(
        ran.err.contains("co.uk: co.uk is a public suffix"),
        "{}",
        ran.err
    );
    assert!(!sandbox.path("hosts.db").exists(), "nothing was stored");

    // No server answers challenges.
    let ran = sandbox.run(&["cert", "issue", "a.example", "b.example"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(1), ""), "{}", ran.err);
    for name in ["a.example", "b.example"] {
        let failed = format!("failed: {name}: pebble: ");
        assert!(
            ran.err.contains(&failed) && ran.err.contains("Failed to connect"),
            "{}",
            ran.err
        );
    }
    assert!(ran.err.contains("; tried again at 20"), "{}", ran.err);
    assert!(
        ran.err.contains("hint: CAs validate at ports 80 and 443"),
        "{}",
        ran.err
    );
    let failing = sandbox.ok(&["cert", "list", "--failing"]);
    assert!(
        failing.contains("a.example\tfailing, 1 failure\torder due at "),
        "{failing}"
    );
    assert!(failing.contains("Failed to connect"), "{failing}");

    let _server = sandbox.serve();
    let renewed = sandbox.ok(&["cert", "renew", "a.example", "b.example"]);
    assert_eq!(renewed.lines().count(), 2, "{renewed}");
    assert_eq!(sandbox.ok(&["cert", "list", "--failing"]), "");
}

/// The host's present certificate.
fn shown(sandbox: &Sandbox, host: &str) -> Value {
    let shown = sandbox.json(&["cert", "show", host, "--json"]);
    shown[0].clone()
}
