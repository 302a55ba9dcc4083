//! The metrics of a server are those that the documentation lists.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use sekisho_testkit::RedisServer;
use sekisho_testkit::services::{Postgres, free_ports};

use crate::acme::ACME;
use crate::redis_cache;
use crate::sandbox::ca;

#[test]
fn the_documentation_lists_every_metric() {
    // With PostgreSQL, a Redis cache before it, issuance and a zone, a server has all its
    // parts.
    let redis = RedisServer::start();
    let database = Postgres::start();
    let sandbox = redis_cache::sandbox(&database.database(), &redis);
    let config = fs::read_to_string(sandbox.path("sekisho.toml")).expect("a file");
    let [port] = free_ports();
    let zone = format!("[acme.dns.\"dcv.test\"]\nserve = [\"127.0.0.1:{port}\"]\n");
    sandbox.write_private(
        "sekisho.toml",
        &format!("{config}[log]\naccess = \"access.log\"\n{ACME}{zone}{HOOK}"),
    );
    sandbox.write("handshake.luau", "function handshake(tls) end");
    sandbox.write("root.pem", &ca().root_pem());
    sandbox.import(&["a.example"]);
    let server = sandbox.serve();
    let answer = server.ask("/metrics");
    let (_, exposition) = answer.split_once("\r\n\r\n").expect("a head");
    let live = table(exposition);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    let documented = fs::read_to_string(file).expect("the list of metrics");
    let documented: Vec<_> = documented
        .lines()
        .filter(|line| line.starts_with("| `"))
        .collect();
    assert!(documented == live, "{}", difference(&documented, &live));
    server.stop();
}

const HOOK: &str = "[hook]\nscript = \"handshake.luau\"\n";

/// Says which rows docs/metrics.md lacks and which it has too many, and then how
/// its table should be.
fn difference(documented: &[&str], live: &[String]) -> String {
    let missing = live
        .iter()
        .filter(|row| !documented.contains(&row.as_str()));
    let missing: Vec<_> = missing.map(String::as_str).collect();
    let surplus = documented
        .iter()
        .filter(|row| !live.iter().any(|line| line == *row));
    let surplus: Vec<_> = surplus.copied().collect();
    let what = if missing.is_empty() && surplus.is_empty() {
        "docs/metrics.md has its rows in another order than by name".to_owned()
    } else {
        format!(
            "rows that docs/metrics.md lacks:\n{}\n\nrows that no server has:\n{}",
            missing.join("\n"),
            surplus.join("\n")
        )
    };
    format!(
        "{what}\n\nthe rows as they should be:\n{}\n",
        live.join("\n")
    )
}

/// Makes a line of a table for each metric, by its name.
fn table(exposition: &str) -> Vec<String> {
    let mut families: BTreeMap<&str, Family<'_>> = BTreeMap::new();
    let mut current = "";
    for line in exposition.lines() {
        let mut words = line.splitn(4, ' ');
        match (words.next(), words.next(), words.next(), words.next()) {
            (Some("#"), Some("HELP"), Some(name), Some(help)) => {
                families.entry(family(name)).or_default().help = help;
            }
            (Some("#"), Some("TYPE"), Some(name), Some(kind)) => {
                current = family(name);
                families.entry(current).or_default().kind = kind;
            }
            (Some("#"), ..) | (None, ..) => {}
            (Some(_), ..) => families.entry(current).or_default().sample(line),
        }
    }
    families
        .iter()
        .map(|(name, family)| family.line(name))
        .collect()
}

/// Returns the name by which rows are sorted.
fn family(name: &str) -> &str {
    name.strip_suffix("_total").unwrap_or(name)
}

#[derive(Default)]
struct Family<'a> {
    kind: &'a str,
    help: &'a str,
    labels: BTreeMap<&'a str, BTreeSet<&'a str>>,
}

impl<'a> Family<'a> {
    fn sample(&mut self, line: &'a str) {
        let labels = line
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'));
        for label in labels.iter().flat_map(|(labels, _)| labels.split(',')) {
            let (key, value) = label.split_once('=').expect("a label and its value");
            // A bucket's bound is part of the type.
            if key != "le" {
                self.labels
                    .entry(key)
                    .or_default()
                    .insert(value.trim_matches('"'));
            }
        }
    }

    fn line(&self, name: &str) -> String {
        let suffix = if self.kind == "counter" { "_total" } else { "" };
        let labels = self.labels.iter().map(|(key, values)| {
            // The version is another one in each release, and CAs are configured.
            let values = values.iter().filter(|_| !["version", "ca"].contains(key));
            let values: Vec<_> = values.map(|value| format!("`{value}`")).collect();
            format!("`{key}` {}", values.join(", "))
                .trim_end()
                .to_owned()
        });
        let labels = labels.collect::<Vec<_>>().join("; ");
        let help = self.help.trim_end_matches('.');
        format!("| `{name}{suffix}` | {} | {labels} | {help} |", self.kind)
    }
}
