//! Tests the filters of `sekisho host list` and `sekisho cert list`.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rusqlite::Connection;
use sekisho_testkit::Key;
use serde_json::{Value, json};

use crate::sandbox::Sandbox;

/// Makes 12 hosts with certificates below `shop.example`, and 288 without below
/// `bulk.example`, of four tenants. Of the first, four have expired, and four expire within
/// 20 days, `c7` first, whose other certificate is an hour younger. Two lineages fail.
fn filled() -> Sandbox {
    let sandbox = Sandbox::new();
    for number in 0..12 {
        let name = format!("c{number}.shop.example");
        sandbox.pair(&format!("pairs/{name}"), &[&name], Key::P256);
    }
    sandbox.ok(&["cert", "import", "--dir", "pairs"]);
    sandbox.import_type(&["c7.shop.example"], Key::Ed25519);
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let now = now.expect("it is after 1970").as_secs();
    let mut text = String::from(BULK);
    for number in 0..8 {
        let host = format!("'c{number}.shop.example'");
        let end = match number {
            ..4 => now - 100,
            _ => now + (20 - number) * 86_400,
        };
        for (key_type, end) in [("ecdsa", end), ("ed25519", end + 3600)] {
            text.push_str(&format!(
                "UPDATE credentials SET not_after = {end} WHERE id =
                (SELECT {key_type} FROM hosts WHERE pattern = {host});"
            ));
        }
    }
    let store = Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch(&text).expect("it is written");
    sandbox
}

const BULK: &str = "
INSERT INTO hosts (pattern, parent, tenant, tls, disabled, version, reversed)
    WITH RECURSIVE n(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM n WHERE n < 287)
    SELECT 'h' || n || '.bulk.example', 'bulk.example', 't' || (n % 4), '1.2', 0, 1,
        'example.bulk.h' || n || '.' FROM n;
INSERT INTO lineages (name, tenant, names, turn, attempts, error_at, error)
    SELECT pattern, tenant, pattern, 0, 1, 0, 'no' FROM hosts
    WHERE pattern IN ('h1.bulk.example', 'h2.bulk.example');
UPDATE hosts SET origin = '/srv', origin_version = version
    WHERE pattern IN ('c0.shop.example', 'c9.shop.example');
UPDATE credentials SET origin = '/srv', origin_version = version WHERE id IN
    (SELECT ecdsa FROM hosts WHERE pattern = 'c0.shop.example');
";

#[test]
fn each_filter_of_hosts_shows_what_it_says() {
    let sandbox = filled();
    sandbox.ok(&["host", "suspend", "h5.bulk.example"]);
    for (filter, count) in [
        ("", 300),
        ("--tenant t1", 72),
        ("--tenant nobody", 0),
        ("--under shop.example", 12),
        ("--under c3.shop.example", 1),
        ("--under op.example", 0),
        ("--no-cert", 288),
        ("--expired", 4),
        ("--expiring 30d", 4),
        ("--expiring 1h", 0),
        ("--failing", 2),
        ("--origin /srv", 2),
        ("--suspended", 1),
        ("--tenant t1 --under bulk.example", 72),
        ("--tenant t1 --under shop.example", 0),
        ("--tenant t1 --failing", 1),
        ("--tenant t1 --no-cert --suspended", 1),
        ("--under c1.shop.example --expired", 1),
        ("--origin /srv --expired", 1),
    ] {
        shows(&sandbox, &format!("host list {filter}"), count);
    }
}

#[test]
fn each_filter_of_certificates_shows_what_it_says() {
    let sandbox = filled();
    for (filter, count) in [
        ("", 13),
        ("--under shop.example", 13),
        ("--under c7.shop.example", 2),
        ("--tenant t1", 0),
        ("--expired", 4),
        ("--expiring 30d", 5),
        ("--under c7.shop.example --expiring 30d", 2),
        ("--under c8.shop.example --expiring 30d", 0),
        ("--origin /srv", 1),
        ("--origin /srv --expired", 1),
        ("--failing", 2),
        ("--no-cert", 2),
        ("--tenant t1 --failing", 1),
        ("--under h2.bulk.example --no-cert", 1),
    ] {
        shows(&sandbox, &format!("cert list {filter}"), count);
    }
}

#[test]
fn what_ends_first_is_listed_first_and_each_host_once() {
    let sandbox = filled();
    let names = |args: &[&str]| -> Vec<String> {
        let listed = sandbox.ok(&[&["host", "list"], args].concat());
        let names = listed.lines().filter_map(|line| line.split('\t').next());
        names.map(str::to_owned).collect()
    };
    let expected = ["c7", "c6", "c5", "c4"].map(|name| format!("{name}.shop.example"));
    assert_eq!(names(&["--expiring", "30d"]), expected);
    assert_eq!(names(&["--expiring", "30d", "--limit", "2"]), expected[..2]);
    // With another condition, its index is read.
    let under = ["--under", "shop.example", "--expiring", "30d", "--limit"];
    let expected = ["c4", "c5", "c6", "c7"].map(|name| format!("{name}.shop.example"));
    assert_eq!(names(&[&under[..], &["9"]].concat()), expected);
    assert_eq!(names(&[&under[..], &["2"]].concat()), expected[..2]);
    // Below a domain, and after a name there.
    let after = ["--under", "shop.example", "--after", "c8.shop.example"];
    assert_eq!(names(&after), ["c9.shop.example"]);
    let shown = sandbox.json(&["host", "show", "c0.shop.example", "--json"]);
    assert_eq!(shown["origin"], "/srv");
    assert_eq!(shown["suspended"], json!(null));
    // A change by hand ends the origin.
    sandbox.ok(&["host", "set", "c0.shop.example", "--status", "404"]);
    assert_eq!(names(&["--origin", "/srv"]), ["c9.shop.example"]);
}

/// Each page of one row, most of which the second condition refuses, would be a statement.
#[test]
fn a_limit_with_two_conditions_reads_whole_pages() {
    let sandbox = filled();
    let text = BULK.replace("bulk", "more").replace("n < 287", "n < 99999");
    let (hosts, _) = text.split_once(';').expect("a statement");
    let store = Connection::open(sandbox.path("hosts.db")).expect("a store");
    store.execute_batch(hosts).expect("it is written");
    drop(store);
    let filter = ["host", "list", "--tenant", "t1", "--origin", "/srv"];
    let took = |more: &[&'static str]| {
        let begun = Instant::now();
        sandbox.ok(&[&filter[..], more].concat());
        begun.elapsed()
    };
    let whole = took(&["--count"]);
    let limited = took(&["--limit", "1"]);
    let most = whole * 4 + Duration::from_millis(500);
    assert!(limited < most, "{limited:?}, and {whole:?} without a limit");
}

#[test]
fn filters_that_exclude_each_other_are_wrong_usage() {
    let sandbox = filled();
    for line in [
        "host list --expiring 30d --expired",
        "host list --failing --no-cert",
        "host list --expired --after a.example",
        "host list --count --limit 3",
        "host list --expiring soon",
        "host list --under *.shop.example",
        "cert list --failing --origin /srv",
        "cert list --suspended",
    ] {
        let args: Vec<_> = line.split(' ').collect();
        let ran = sandbox.run(&args);
        assert_eq!(ran.code, Some(2), "{line}: {}", ran.err);
    }
}

#[test]
fn a_certificate_that_cannot_be_read_is_counted() {
    let sandbox = filled();
    let store = Connection::open(sandbox.path("hosts.db")).expect("a store");
    let broken = "UPDATE credentials SET leaf = X'3000' WHERE id =
        (SELECT ecdsa FROM hosts WHERE pattern = 'c9.shop.example')";
    store.execute_batch(broken).expect("it is written");
    assert_eq!(sandbox.ok(&["cert", "list", "--count"]), "13\n");
    let error = sandbox.fails(&["cert", "list"]);
    assert!(error.contains("can't be read"), "{error}");
}

/// Asks for so many lines, elements and a number.
fn shows(sandbox: &Sandbox, line: &str, count: usize) {
    let args: Vec<_> = line.split_whitespace().collect();
    let with = |more: &[&'static str]| [&args[..], more].concat();
    let text = sandbox.ok(&args);
    assert_eq!(text.lines().count(), count, "{line}: {text}");
    for row in text.lines() {
        assert_eq!(row.split('\t').count(), 4, "{line}: {row}");
    }
    let listed = sandbox.json(&with(&["--json"]));
    assert_eq!(listed.as_array().map(Vec::len), Some(count), "{line}");
    let counted = sandbox.ok(&with(&["--count"]));
    assert_eq!(counted, format!("{count}\n"), "{line}");
    let counted: Value = sandbox.json(&with(&["--count", "--json"]));
    assert_eq!(counted, json!({ "count": count }), "{line}");
}
