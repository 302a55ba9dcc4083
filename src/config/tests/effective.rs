//! Tests the list of effective values.
#![cfg(feature = "hook")]

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::super::keys::{KEYS, WORDS};
use super::documentation;
use super::*;

const EVERYTHING: &str = r#"
[listen]
https = ["127.0.0.1:8443", "[::1]:8443"]
trusted = [
    "10.0.0.0/8",
    "192.0.2.0/24",
]
[default]
"*" = "www.example.com"
"[::1]:8443" = "v6.example.com"
[store]
url = "postgres://u:hush@db.example/certs?pool=2"
[keys]
master = "env:MASTER"
[cache]
memory = "1024KiB"
redis = "redis://u:hush@h"
[site]
upstream = { servers = ["http://127.0.0.1:1", { url = "http://127.0.0.1:2", weight = 3 }] }
request = { set = { Authorization = "Basic aHVzaA==", X-Part = "a \"b\"\tc" } }
[[site.paths]]
path = "/a"
root = "www"
[[site.paths]]
path = "/b"
status = 404
response = {}
[log]
access = "-"
[acme]
agree = true
cas = ["zerossl", "letsencrypt", "internal"]
[acme.ca.zerossl]
eab_id = "kid"
eab_key = "file:eab"
[acme.ca.internal]
directory = "https://ca.example/d"
quotas = { orders = "300 per 3h" }
[acme.dns."example.com"]
webhook = "https://u:hush@dns.example/"
[acme.dns."b.example"]
rfc2136 = "192.0.2.53"
tsig = "file:tsig"
[hook]
script = "a.luau"
sql = { customers = "postgres://u:hush@db/d", others = "postgres://u@db/e" }
[server]
loads = 10
"#;

/// Returns the value and the line of each key; 0 is the default.
fn effective(text: &str) -> BTreeMap<String, (Value, usize)> {
    let mut found = BTreeMap::new();
    for section in parse(text).unwrap().effective() {
        for entry in section.entries {
            let line = match entry.origin {
                Origin::Default => 0,
                Origin::File { file, line } => {
                    assert_eq!(file, "/etc/sekisho/sekisho.toml");
                    line
                }
            };
            let key = format!("{}.{}", section.path, entry.key);
            let value = entry.value.unwrap_or_default();
            let earlier = found.insert(key, (value, line));
            assert!(earlier.is_none(), "{}.{} twice", section.path, entry.key);
        }
    }
    found
}

/// Writes the list as a configuration.
fn pasted(text: &str) -> String {
    let mut pasted = String::new();
    for section in parse(text).unwrap().effective() {
        if !section.is_set {
            continue;
        }
        pasted += &format!("{}\n", section.header);
        let mut entries = section.entries.iter();
        while let Some(entry) = entries.find(|entry| entry.value.is_some() && !entry.is_built_in) {
            pasted += &format!("{}\n", entry.assignment());
        }
    }
    pasted
}

#[test]
fn values_have_the_lines_of_their_keys() {
    let found = effective(EVERYTHING);
    let line = |begin: &str| {
        let mut lines = EVERYTHING.lines();
        1 + lines.position(|line| line.starts_with(begin)).unwrap()
    };
    for (key, value, begin) in [
        (
            "listen.trusted",
            json!(["10.0.0.0/8", "192.0.2.0/24"]),
            "trusted",
        ),
        ("default.\"*\"", json!("www.example.com"), "\"*\""),
        ("keys.master", json!("env:MASTER"), "master"),
        ("cache.memory", json!("1024KiB"), "memory"),
        (
            "store.url",
            json!("postgres://u:***@db.example/certs?pool=2"),
            "url",
        ),
        (
            "site.upstream.servers",
            json!(["http://127.0.0.1:1", {"url": "http://127.0.0.1:2", "weight": 3}]),
            "upstream",
        ),
        ("site.request.set.Authorization", json!("***"), "request"),
        ("site.request.set.X-Part", json!("a \"b\"\tc"), "request"),
        ("site.paths[0].root", json!("www"), "root"),
        ("site.paths[1].response", json!({}), "response"),
        ("acme.ca.zerossl.eab_key", json!("file:eab"), "eab_key"),
        (
            "acme.ca.internal.quotas.orders",
            json!("300 per 3h"),
            "quotas",
        ),
        (
            "acme.dns.\"example.com\".webhook",
            json!("https://u:***@dns.example/"),
            "webhook",
        ),
        ("hook.sql.customers", json!("postgres://u:***@db/d"), "sql"),
        ("server.loads", json!(10), "loads"),
    ] {
        assert_eq!(found[key], (value, line(begin)), "{key}");
    }
    let dotted = effective(MINIMAL);
    assert_eq!(dotted["store.url"], (json!("sqlite:a.db"), 2));
}

#[test]
fn defaults_are_resolved() {
    let found = effective(EVERYTHING);
    let cores = std::thread::available_parallelism().unwrap().get();
    for (key, value) in [
        ("listen.public_port", json!(8443)),
        ("listen.http", json!(null)),
        ("listen.plain", json!(false)),
        ("listen.admin_token", json!(null)),
        ("cache.disk", json!("/etc/sekisho/disk-cache.db")),
        ("cache.fresh", json!("60s")),
        ("sites.allow", json!(["/srv", "/var/www"])),
        ("log.format", json!("json")),
        ("acme.solvers", json!(["tls-alpn-01", "http-01", "dns-01"])),
        ("acme.caa", json!(true)),
        (
            "acme.ca.letsencrypt.directory",
            json!("https://acme-v02.api.letsencrypt.org/directory"),
        ),
        ("acme.ca.letsencrypt.quotas.orders", json!("300 per 3h")),
        ("acme.ca.letsencrypt.quotas.failures", json!("5 per 1h")),
        ("acme.ca.internal.quotas.domains", json!(null)),
        ("acme.dns.\"b.example\".propagation_timeout", json!("2m")),
        ("hook.on_error", json!("refuse")),
        ("server.workers", json!(cores)),
        ("server.loads_per_prefix", json!(10)),
    ] {
        assert_eq!(found[key], (value, 0), "{key}");
    }
    let found = effective(&MINIMAL.replace(":8443", ":0"));
    for (key, value) in [
        ("listen.public_port", json!(null)),
        ("keys.master", json!("file:/etc/sekisho/master.key")),
        ("cache.disk", json!("off")),
        ("log.format", json!(null)),
    ] {
        assert_eq!(found[key], (value, 0), "{key}");
    }
    assert!(!found.keys().any(|key| key.starts_with("acme")));
}

#[test]
fn every_key_that_the_program_reads_is_listed() {
    let found = effective(EVERYTHING);
    // Names of tables that EVERYTHING has in place of those of the documentation.
    let own = |section: &str| {
        let section = section.replace("NAME", "internal");
        section.replace("ZONE", "b.example")
    };
    let has = |section: &str, name: &str| {
        let key = format!("{}.{name}", own(section));
        let below = format!("{key}.");
        let is_there = |found: &String| *found == key || found.starts_with(&below);
        assert!(found.keys().any(is_there), "{key}");
    };
    for section in documentation::sections() {
        for name in documentation::known(&format!("[{section}]\n")) {
            has(&section, &name);
        }
    }
    for key in KEYS {
        has(key.section, key.name);
    }
    for (section, name, _) in WORDS {
        has(section, name);
    }
}

#[test]
fn the_list_is_a_configuration_with_the_same_effect() {
    let small = format!("{MINIMAL}acme.agree = true\nacme.cas = [\"letsencrypt\"]\n");
    for text in [MINIMAL, EXAMPLE, EVERYTHING, &small] {
        let again = pasted(text);
        let mut shown = parse(&again).unwrap_or_else(|error| panic!("{error}:\n{again}"));
        let config = parse(text).unwrap();
        assert_eq!(shown.listen.public_port, Some(8443));
        shown.listen.public_port = config.listen.public_port;
        // What is secret is hidden in both.
        let plain = |text: String| {
            let text = text.replace("Basic aHVzaA==", "***");
            text.replace(":hush@", ":***@")
        };
        assert_eq!(
            format!("{shown:?}"),
            plain(format!("{config:?}")),
            "{again}"
        );
        assert!(!again.contains("hush"), "{again}");
    }
}

#[test]
fn sections_that_are_not_set_are_told() {
    let set = |text: &str| {
        let sections = parse(text).unwrap().effective();
        let sections = sections.iter().filter(|section| section.is_set);
        sections
            .map(|section| section.path.clone())
            .collect::<Vec<_>>()
    };
    let always = [
        "listen", "store", "keys", "cache", "sites", "tickets", "log", "server",
    ];
    assert_eq!(set(MINIMAL), always);
    assert_eq!(
        set(EVERYTHING),
        [
            "listen",
            "default",
            "store",
            "keys",
            "cache",
            "site",
            "site.paths[0]",
            "site.paths[1]",
            "sites",
            "tickets",
            "log",
            "acme",
            "acme.ca.zerossl",
            "acme.ca.internal",
            "acme.ca.letsencrypt",
            "acme.dns.\"example.com\"",
            "acme.dns.\"b.example\"",
            "hook",
            "hook.sql",
            "server",
        ]
    );
}
