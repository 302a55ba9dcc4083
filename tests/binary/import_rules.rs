//! Tests what an import does to hosts: tenants, sites, origins, dry runs and reports.

use std::fs::{self, File};
use std::os::unix::fs::{MetadataExt, symlink};

use rustix::system::uname;
use sekisho_testkit::Key;
use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox, ca};

const IMPORT: [&str; 3] = ["cert", "import", "pairs"];

fn shown(sandbox: &Sandbox, host: &str) -> Value {
    sandbox.json(&["host", "show", host, "--json"])
}

#[test]
fn hosts_that_are_made_get_the_tenant_and_the_site() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "ours.example", "--tenant", "anna"]);
    sandbox.ok(&["host", "set", "theirs.example", "--tenant", "bert"]);
    sandbox.ok(&["host", "set", "nobodys.example"]);
    sandbox.write("site.json", r#"{"status": 503}"#);
    sandbox.pair(
        "pairs/new.example",
        &["new.example", "ours.example"],
        Key::P256,
    );
    sandbox.pair(
        "pairs/theirs.example",
        &["theirs.example", "x.example"],
        Key::P256,
    );
    sandbox.pair("pairs/nobodys.example", &["nobodys.example"], Key::P256);
    let of_anna = [&IMPORT[..], &["--tenant", "anna", "--site", "site.json"]].concat();
    let ran = sandbox.run(&of_anna);
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(
        ran.out.contains("imported 1,") && ran.out.contains("refused 2"),
        "{}",
        ran.out
    );
    for told in [
        "theirs.example belongs to tenant bert",
        "nobodys.example has no tenant; 'sekisho host set nobodys.example --tenant anna'",
    ] {
        assert!(ran.err.contains(told), "{}", ran.err);
    }
    let new = shown(&sandbox, "new.example");
    assert_eq!(
        (&new["tenant"], &new["site"]["status"]),
        (&json!("anna"), &json!(503))
    );
    let ours = shown(&sandbox, "ours.example");
    assert_eq!(
        (&ours["tenant"], &ours["site"]),
        (&json!("anna"), &json!(null))
    );
    let list = sandbox.ok(&["host", "list"]);
    assert_eq!(list.lines().count(), 4, "{list}");
    sandbox.write("site.json", r#"{"upstream": "http://192.0.2.1"}"#);
    let error = sandbox.fails(&of_anna);
    assert!(error.contains("sekisho.toml allows"), "{error}");
}

#[test]
fn only_existing_hosts_are_served_if_that_is_asked_for() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "a.example"]);
    sandbox.ok(&["host", "set", "*.b.example"]);
    sandbox.pair(
        "pairs/a.example",
        &["a.example", "www.a.example"],
        Key::P256,
    );
    sandbox.pair("pairs/x.b.example", &["x.b.example"], Key::P256);
    let only = [&IMPORT[..], &["--only-existing"]].concat();
    let out = sandbox.ok(&only);
    assert!(
        out.contains("imported 1,") && out.contains("1 without host"),
        "{out}"
    );
    assert_eq!(sandbox.ok(&["host", "list"]).lines().count(), 2);
    let list = sandbox.json(&["cert", "list", "--json"]);
    assert_eq!(list.as_array().map(Vec::len), Some(1));
    assert_eq!(
        sandbox.json(&[&only[..], &["--json"]].concat())["without_host"],
        1
    );
}

#[test]
fn the_run_does_what_the_dry_run_said() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "theirs.example", "--tenant", "bert"]);
    let until = |name: &str, names: &[&str], year: i32| {
        let pair = ca().issue_valid(names, Key::P256, (2020, 1, 1), (year, 1, 1));
        sandbox.write(&format!("pairs/{name}.crt"), &pair.chain_pem());
        sandbox.write(&format!("pairs/{name}.key"), &pair.key_pem());
    };
    until("a.example", &["a.example"], 2090);
    until("longer", &["b.example", "c.example"], 2099);
    until("theirs.example", &["theirs.example"], 2090);
    sandbox.write("pairs/half.example.crt", "");
    let before = sandbox.json(&["host", "list", "--json"]);
    let import = [&IMPORT[..], &["--tenant", "anna", "--renew"]].concat();
    let lines = |file: &str| {
        let text = fs::read_to_string(sandbox.path(file)).expect("a report");
        let lines = text.lines().map(|line| {
            let line: Value = serde_json::from_str(line).expect("JSON");
            let field = |name: &str| line[name].to_string();
            ["place", "result", "hosts", "reason"].map(field)
        });
        let mut lines: Vec<_> = lines.collect();
        lines.sort();
        lines
    };
    let told = |out: &str| out.rsplit_once(" in ").expect("a time").0.to_owned();
    for state in ["imported", "skipped"] {
        let run = |more: &[&str]| {
            let ran = sandbox.run(&[&import[..], more].concat());
            assert_eq!(ran.code, Some(1), "{}", ran.err);
            assert!(ran.out.contains(&format!("{state} 2")), "{}", ran.out);
            let mut errors: Vec<_> = ran.err.lines().map(str::to_owned).collect();
            errors.sort();
            (told(&ran.out), errors)
        };
        let (dry, dry_error) = run(&["--dry-run", "--report", "dry"]);
        let hosts = sandbox.json(&["host", "list", "--json"]);
        assert!(state == "skipped" || hosts == before, "it was written");
        let (out, error) = run(&["--report", "wet"]);
        assert_eq!(dry, format!("dry run: would have {out}"));
        assert_eq!(dry_error, error);
        assert_eq!(lines("dry"), lines("wet"));
    }
}

#[test]
fn a_dry_run_foresees_its_own_batches() {
    // Several batches lie between the first and the last line of the list.
    const BETWEEN: usize = 6000;
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "a.example"]);
    sandbox.pair("a.example", &["a.example"], Key::P256);
    sandbox.pair("other", &["other.example"], Key::P256);
    let line = "a.example.crt,a.example.key\n";
    let between = "other.crt,other.key\n".repeat(BETWEEN);
    sandbox.write("list.csv", &format!("{line}{between}{line}"));
    let import = ["cert", "import", "list.csv", "--only-existing"];
    let counts = "imported 1, replaced 0, skipped 1 (the same), 6,000 without host";
    let out = sandbox.ok(&[&import[..], &["--dry-run"]].concat());
    assert!(
        out.contains(&format!("dry run: would have {counts}")),
        "{out}"
    );
    let out = sandbox.ok(&import);
    assert!(out.starts_with(counts), "{out}");
}

#[test]
fn a_dry_run_makes_no_store() {
    let sandbox = Sandbox::new();
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    let dry = [&IMPORT[..], &["--dry-run", "--json"]].concat();
    let out = sandbox.json(&dry);
    assert_eq!(
        (&out["imported"], &out["dry_run"]),
        (&json!(1), &json!(true))
    );
    for file in ["hosts.db", "master.key"] {
        assert!(!sandbox.path(file).exists(), "{file}");
    }
}

#[test]
fn reports_hold_places_and_no_keys() {
    let sandbox = Sandbox::new();
    let pair = ca().issue(&["a.example"], Key::P256);
    let bundle = pair.key_pem() + &pair.chain_pem();
    sandbox.write("pairs/good.pem", &bundle);
    // A key in the place of a certificate, and one that is cut.
    sandbox.write("pairs/key.pem", &pair.key_pem());
    sandbox.write("pairs/cut.pem", &bundle[..bundle.len() / 4]);
    let ran = sandbox.run(&[&IMPORT[..], &["--report", "report.jsonl"]].concat());
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    let file = sandbox.path("report.jsonl");
    let mode = fs::metadata(&file).expect("a report").mode();
    assert_eq!(mode & 0o777, 0o600);
    let report = fs::read_to_string(&file).expect("a report");
    assert_eq!(report.lines().count(), 3, "{report}");
    let good = report.lines().find(|line| line.contains("good.pem"));
    let good: Value = serde_json::from_str(good.expect("a line")).expect("JSON");
    assert_eq!(good["result"], "imported");
    assert_eq!(good["hosts"], json!(["a.example"]));
    let id = good["id"].as_str().expect("an id");
    assert!(sandbox.ok(&["cert", "list"]).contains(id), "{id}");
    let pem = pair.key_pem();
    let secret = pem.lines().nth(1).expect("a line of base64");
    for text in [&report, &ran.out, &ran.err] {
        assert!(!text.contains(secret), "{text}");
    }
}

#[test]
fn a_report_may_be_a_pipe_or_a_device() {
    let sandbox = Sandbox::new();
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    let out = sandbox.ok(&[&IMPORT[..], &["--report", "/dev/stdout"]].concat());
    assert!(out.contains("\"result\":\"imported\""), "{out}");
    assert!(out.contains("imported 1,"), "{out}");
    sandbox.ok(&[&IMPORT[..], &["--report", "/dev/null"]].concat());
}

/// A tenant may have made the link, and standard output has its own place in its file.
#[test]
fn a_report_follows_no_link_to_a_file() {
    let sandbox = Sandbox::new();
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    sandbox.write("precious", "before");
    symlink("precious", sandbox.path("report")).expect("a link");
    symlink("made", sandbox.path("dangling")).expect("a link");
    let import = |report| [&IMPORT[..], &["--report", report]].concat();
    for report in ["report", "dangling"] {
        let error = sandbox.fails(&import(report));
        assert!(error.contains(report), "{error}");
    }
    let precious = sandbox.path("precious");
    let out = File::options().append(true).open(&precious);
    let mut to_file = sandbox.command(&import("/dev/stdout"));
    let to_file = to_file.stdout(out.expect("a file")).output();
    let ran = Ran::of(&to_file.expect("it runs"));
    assert_eq!(ran.code, Some(1), "{}", ran.err);
    assert!(ran.err.contains("/dev/stdout"), "{}", ran.err);
    let text = fs::read_to_string(&precious).expect("a file");
    assert_eq!(text, "before");
    assert!(!sandbox.path("made").exists(), "a file was made");
    // A file of an earlier import is replaced.
    sandbox.write("report.jsonl", "before");
    sandbox.ok(&import("report.jsonl"));
    let report = fs::read_to_string(sandbox.path("report.jsonl")).expect("a report");
    assert!(report.starts_with('{'), "{report}");
}

#[test]
fn records_keep_the_source_that_brought_them() {
    let sandbox = Sandbox::new();
    sandbox.ok(&["host", "set", "before.example"]);
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    sandbox.pair("pairs/before.example", &["before.example"], Key::P256);
    let origins = || {
        let store = rusqlite::Connection::open(sandbox.path("hosts.db")).expect("a store");
        let query = "SELECT pattern, origin FROM hosts WHERE origin IS NOT NULL
            AND origin_version = version";
        let mut query = store.prepare(query).expect("a query");
        let rows = query.query_map([], |row| Ok((row.get(0)?, row.get(1)?)));
        let rows = rows
            .expect("rows")
            .collect::<Result<Vec<(String, String)>, _>>();
        rows.expect("texts")
    };
    sandbox.ok(&IMPORT);
    let folder = sandbox.path("pairs").canonicalize().expect("a folder");
    // Another machine may have this folder, too.
    let machine = uname();
    let machine = machine.nodename().to_string_lossy();
    let source = format!("{machine}:{} flat", folder.display());
    let of_source = [("a.example".to_owned(), source)];
    assert_eq!(origins(), of_source, "others keep what they have");
    // Unchanged, it stays; renewed, it is the source's still.
    sandbox.ok(&IMPORT);
    assert_eq!(origins(), of_source);
    sandbox.pair("pairs/a.example", &["a.example"], Key::P256);
    assert!(sandbox.ok(&IMPORT).contains("replaced 1"));
    assert_eq!(origins(), of_source);
    sandbox.ok(&["host", "set", "a.example", "--tenant", "anna"]);
    assert!(origins().is_empty(), "somebody touched it");
}
