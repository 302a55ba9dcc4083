//! Tests which imported certificates are to be renewed.

use sekisho_testkit::Key;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, ca};

#[test]
fn an_import_is_renewed_if_that_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "a.example", "--tenant", "anna"]);
    let days = |day| {
        ca().issue_valid(
            &["a.example", "www.a.example"],
            Key::P256,
            (2025, 1, day),
            (2099, 1, day),
        )
    };
    let first = days(1);
    import(&sandbox, &first, &[]);
    assert_eq!(lineages(&sandbox, "a.example"), json!([]));
    let ran = import(&sandbox, &first, &["--renew"]);
    assert!(
        ran.out
            .contains("skipped 1 (the same), refused 0, 1 to be renewed"),
        "{}",
        ran.out
    );
    let made = lineages(&sandbox, "a.example");
    let one = &made[0];
    assert_eq!(
        (&one["name"], &one["tenant"], &one["state"]),
        (&json!("a.example"), &json!("anna"), &json!("scheduled"))
    );
    assert_eq!(one["names"], json!(["a.example", "www.a.example"]));
    assert_eq!(one["key_type"], json!(null), "as all others");
    // Two thirds of 74 years are over in 2074: a server looks long before whether its CA
    // wants it renewed.
    let due = one["due"].as_str().expect("a time");
    assert!(due < "2074", "{due}");
    assert_eq!(lineages(&sandbox, "www.a.example"), made);
    import(&sandbox, &first, &["--renew"]);
    assert_eq!(lineages(&sandbox, "a.example"), made, "nothing changed");

    let ran = import(&sandbox, &days(2), &["--renew"]);
    assert!(ran.out.contains("replaced 1"), "{}", ran.out);
    let next = lineages(&sandbox, "a.example");
    assert_eq!(next[0]["name"], "a.example");
    assert_ne!(next[0]["credential"], made[0]["credential"]);
    assert_eq!(next.as_array().map(Vec::len), Some(1));

    let rsa = ca().issue(&["a.example"], Key::Rsa2048);
    import(&sandbox, &rsa, &["--renew"]);
    let both = lineages(&sandbox, "a.example");
    assert_eq!(both[0], next[0]);
    assert_eq!(
        (&both[1]["name"], &both[1]["key_type"]),
        (&both[1]["credential"], &json!("rsa"))
    );
}

#[test]
fn an_import_without_renewal_ends_that_of_what_it_replaces() {
    let sandbox = Sandbox::new();
    let both = ["a.example", "b.example"];
    let renewed = |names: &[&str]| {
        import(&sandbox, &ca().issue(names, Key::P256), &["--renew"]);
    };
    renewed(&both);
    let lineage = lineages(&sandbox, "a.example")[0].clone();
    sandbox.import(&["a.example"]);
    assert_eq!(
        lineages(&sandbox, "a.example"),
        json!([]),
        "of another certificate"
    );
    assert_eq!(lineages(&sandbox, "b.example")[0], lineage);
    sandbox.import(&["b.example"]);
    assert_eq!(lineages(&sandbox, "b.example"), json!([]));

    // Other ways to take a host its certificate.
    for (name, args) in [
        ("c.example", vec!["cert", "remove", "c.example"]),
        (
            "d.example",
            vec!["host", "set", "d.example", "--cert", "all.example"],
        ),
    ] {
        renewed(&[name]);
        sandbox.import(&["all.example", "d.example"]);
        renewed(&[name]);
        assert_eq!(lineages(&sandbox, name)[0]["state"], "scheduled");
        sandbox.ok(&args);
        assert_eq!(lineages(&sandbox, name), json!([]));
    }
    renewed(&both);
    let id = sandbox.json(&["cert", "show", "a.example", "--json"])[0]["id"].clone();
    sandbox.ok(&["cert", "remove", id.as_str().expect("an id")]);
    assert_eq!(lineages(&sandbox, "b.example"), json!([]));
}

#[test]
fn what_no_ca_issues_for_is_told() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a_b.example", "c.example"], Key::P256);
    let ran = import(&sandbox, &pair, &["--renew"]);
    assert!(
        ran.err.contains("sekisho.toml has no [acme]"),
        "{}",
        ran.err
    );
    assert!(
        ran.err
            .contains("a_b.example is not renewed: no CA takes the label"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("1 to be renewed"), "{}", ran.out);
    assert_eq!(
        lineages(&sandbox, "c.example")[0]["names"],
        json!(["c.example"])
    );

    let many: Vec<_> = (0..101)
        .map(|number| format!("h{number}.example"))
        .collect();
    let many: Vec<_> = many.iter().map(String::as_str).collect();
    for (pair, says) in [
        (
            ca().issue(&["co.uk"], Key::P256),
            "co.uk is a public suffix",
        ),
        (
            ca().issue(&["d.example"], Key::Ed25519),
            "no CA issues for Ed25519 keys",
        ),
        (
            ca().issue(&many, Key::P256),
            "and 98 more is not renewed: it has more than 100 hosts",
        ),
    ] {
        let ran = import(&sandbox, &pair, &["--renew"]);
        assert!(ran.err.contains(says), "{}", ran.err);
        assert!(
            ran.out.contains("imported 1") && ran.out.contains("0 to be renewed"),
            "{}",
            ran.out
        );
    }
}

fn import(sandbox: &Sandbox, pair: &sekisho_testkit::Pair, more: &[&str]) -> Ran {
    sandbox.write("pair.crt", &pair.chain_pem());
    sandbox.write("pair.key", &pair.key_pem());
    let args = ["cert", "import", "--chain", "pair.crt", "--key", "pair.key"];
    let ran = sandbox.run(&[&args, more].concat());
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    ran
}

fn lineages(sandbox: &Sandbox, host: &str) -> Value {
    sandbox.json(&["host", "show", host, "--json"])["lineages"].clone()
}
