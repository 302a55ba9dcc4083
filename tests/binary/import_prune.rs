//! Tests how an import removes what its source no longer has.

use std::fs;

use sekisho_testkit::Key;

use crate::sandbox::{Sandbox, ca};

const PRUNE: [&str; 4] = ["cert", "import", "pairs", "--prune"];

/// Makes a folder of pairs, and imports it.
fn imported(hosts: &[&str]) -> Sandbox {
    let sandbox = Sandbox::new();
    for host in hosts {
        sandbox.pair(&format!("pairs/{host}"), &[host], Key::P256);
    }
    sandbox.ok(&["cert", "import", "pairs"]);
    sandbox
}

fn remove(sandbox: &Sandbox, host: &str) {
    for ending in ["crt", "key"] {
        let file = sandbox.path(&format!("pairs/{host}.{ending}"));
        fs::remove_file(file).expect("a file");
    }
}

fn hosts(sandbox: &Sandbox) -> Vec<String> {
    let list = sandbox.json(&["host", "list", "--json"]);
    let hosts = list.as_array().expect("an array").iter();
    let name = |host: &serde_json::Value| host["name"].as_str().expect("a name").to_owned();
    hosts.map(name).collect()
}

#[test]
fn what_the_source_no_longer_has_is_removed() {
    let sandbox = imported(&["a.example", "b.example"]);
    remove(&sandbox, "b.example");
    assert!(!sandbox.ok(&["cert", "import", "pairs"]).contains("removed"));
    let out = sandbox.ok(&[&PRUNE[..], &["--dry-run"]].concat());
    assert!(
        out.contains("skipped 1 (the same), removed 1, refused 0"),
        "{out}"
    );
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
    let out = sandbox.ok(&[&PRUNE[..], &["--report", "report"]].concat());
    assert!(
        out.contains("skipped 1 (the same), removed 1, refused 0"),
        "{out}"
    );
    assert_eq!(hosts(&sandbox), ["a.example"]);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(
        list.as_array().map(Vec::len),
        Some(1),
        "its certificate went with it"
    );
    let report = fs::read_to_string(sandbox.path("report")).expect("a report");
    let removed = report.lines().filter(|line| line.contains("\"removed\""));
    let removed: Vec<_> = removed.collect();
    assert!(
        matches!(removed[..], [line] if line.contains("b.example")),
        "{report}"
    );
    assert!(!sandbox.ok(&PRUNE).contains("removed"));
}

#[test]
fn more_than_a_twentieth_needs_a_number() {
    let names: Vec<_> = (0..40).map(|number| format!("h{number}.example")).collect();
    let names: Vec<_> = names.iter().map(String::as_str).collect();
    let sandbox = imported(&names);
    for host in &names[..3] {
        remove(&sandbox, host);
    }
    let error = sandbox.fails(&PRUNE);
    let told = "no longer has 3 of 40 hosts: nothing is removed; --prune-at-most 3 allows it";
    assert!(error.contains(told), "{error}");
    assert_eq!(hosts(&sandbox).len(), 40);
    let out = sandbox.ok(&[&PRUNE[..], &["--prune-at-most", "3"]].concat());
    assert!(out.contains("removed 3"), "{out}");
    assert_eq!(hosts(&sandbox).len(), 37);
}

#[test]
fn a_gone_mount_prunes_nothing() {
    let sandbox = imported(&["a.example", "b.example"]);
    fs::rename(sandbox.path("pairs"), sandbox.path("gone")).expect("a folder");
    assert!(sandbox.fails(&PRUNE).contains("No such file"));
    fs::create_dir(sandbox.path("pairs")).expect("a folder");
    assert!(
        sandbox
            .fails(&PRUNE)
            .contains("nothing to import among 0 files")
    );
    let flat = [&PRUNE[..], &["--layout", "flat"]].concat();
    assert!(sandbox.fails(&flat).contains("no pairs of the layout flat"));
    assert_eq!(hosts(&sandbox).len(), 2);
    let out = sandbox.ok(&[&flat[..], &["--prune-at-most", "2"]].concat());
    assert!(out.contains("removed 2"), "{out}");
    assert!(hosts(&sandbox).is_empty());
}

#[test]
fn what_others_touched_stays() {
    let sandbox = imported(&["a.example", "b.example", "c.example"]);
    sandbox.ok(&["host", "set", "mine.example"]);
    sandbox.pair("pairs/mine.example", &["mine.example"], Key::P256);
    sandbox.ok(&["cert", "import", "pairs"]);
    // One is edited, one gets its certificate from elsewhere.
    sandbox.ok(&["host", "set", "b.example", "--tenant", "anna"]);
    sandbox.import(&["c.example"]);
    for host in ["b.example", "c.example", "mine.example"] {
        remove(&sandbox, host);
    }
    let out = sandbox.ok(&[&PRUNE[..], &["--prune-at-most", "2"]].concat());
    assert!(out.contains("removed 2"), "{out}");
    assert_eq!(
        hosts(&sandbox),
        ["a.example", "b.example", "c.example", "mine.example"]
    );
    // Of those that stay, the source's certificates are gone.
    for (host, has) in [
        ("b.example", false),
        ("c.example", true),
        ("mine.example", false),
    ] {
        let ran = sandbox.run(&["cert", "show", host]);
        assert_eq!(ran.code == Some(0), has, "{host}: {}", ran.err);
    }
}

#[test]
fn a_refused_pair_prunes_nothing_unless_its_names_are_known() {
    let sandbox = imported(&["a.example", "b.example", "c.example"]);
    remove(&sandbox, "c.example");
    sandbox.write("pairs/b.example.crt", "cut");
    let error = sandbox.fails(&PRUNE);
    let told = "b.example.crt, which was refused, are unknown";
    assert!(
        error.contains("nothing is removed: the hosts of") && error.contains(told),
        "{error}"
    );
    assert_eq!(hosts(&sandbox).len(), 3);
    let expired = ca().issue_valid(&["b.example"], Key::P256, (2020, 1, 1), (2021, 1, 1));
    sandbox.write("pairs/b.example.crt", &expired.chain_pem());
    sandbox.write("pairs/b.example.key", &expired.key_pem());
    let ran = sandbox.run(&PRUNE);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.out.contains("removed 1, refused 1"), "{}", ran.out);
    assert_eq!(hosts(&sandbox), ["a.example", "b.example"]);
}

#[test]
fn a_source_without_a_name_is_followed_by_one() {
    let sandbox = imported(&["a.example"]);
    let error = sandbox
        .run(&["cert", "import", "-", "--layout", "flat", "--prune"])
        .err;
    assert!(error.contains("--origin NAME"), "{error}");
    let path = sandbox.path("pairs").canonicalize().expect("a folder");
    let origin = path.to_str().expect("UTF-8");
    remove(&sandbox, "a.example");
    sandbox.pair("other/b.example", &["b.example"], Key::P256);
    sandbox.ok(&["cert", "import", "other", "--prune", "--origin", origin]);
    assert_eq!(hosts(&sandbox), ["b.example"]);
}
