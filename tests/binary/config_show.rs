//! Tests `config show`: values with their origins, and nothing that is secret.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use serde_json::{Value, json};

use crate::sandbox::{Ran, Sandbox};

/// Configuration with all sections. Each secret has the word "hush".
const EVERYTHING: &str = r#"[listen]
https = ["127.0.0.1:8443"]
admin = "unix:admin.sock"
admin_token = "env:SHOWN_TOKEN"
[default]
"*" = "www.example.com"
[store]
url = "postgres://u:hush1@127.0.0.1:1/d?password=hush2&pool=2"
[keys]
master = "file:master.key"
[cache]
redis = "rediss://:hush3@127.0.0.1:1/3"
disk = "copies.db"
[site]
upstream = "http://127.0.0.1:1"
[site.request.set]
Authorization = "Basic hush4"
[[site.paths]]
path = "/old"
redirect = "https://www.example.com/?token=hush5"
[sites]
resolvers = ["192.0.2.53"]
[tickets]
key = "file:tickets.key"
[log]
access = "access.log"
[acme]
agree = true
cas = ["letsencrypt"]
first_access = "ask"
ask = "https://u:hush6@ask.example/"
[acme.ca.letsencrypt]
eab_id = "kid"
eab_key = "file:eab.key"
[acme.dns."example.com"]
webhook = "https://u:hush7@dns.example/?token=hush8"
user = "u"
password = "env:SHOWN_PASSWORD"
[hook]
script = "missing.luau"
[hook.sql]
customers = "postgres://u:hush9@127.0.0.1:1/c"
[server]
workers = 3
"#;

fn everything() -> Sandbox {
    let sandbox = Sandbox::new();
    sandbox.write_private("sekisho.toml", EVERYTHING);
    for file in ["master.key", "tickets.key", "eab.key"] {
        sandbox.write_private(file, "hush in a file");
    }
    sandbox
}

fn show(sandbox: &Sandbox, args: &[&str]) -> String {
    let mut command = sandbox.command(&[&["config", "show"], args].concat());
    command.env("SHOWN_TOKEN", "hush in the environment");
    command.env("SHOWN_PASSWORD", "hush in the environment");
    let ran = Ran::of(&command.output().expect("the binary runs"));
    assert_eq!(ran.code, Some(0), "{}", ran.err);
    assert!(!ran.err.contains("hush"), "{}", ran.err);
    ran.out
}

/// Returns the value of each key.
fn values(json: &str) -> BTreeMap<String, Value> {
    let list: Vec<Value> = serde_json::from_str(json).expect("a list");
    let pairs = list.into_iter().map(|item| {
        let key = item["key"].as_str().expect("a key").to_owned();
        (key, item["value"].clone())
    });
    pairs.collect()
}

#[test]
fn values_have_their_origin_and_secrets_stay_hidden() {
    let sandbox = everything();
    let files = || fs::read_dir(sandbox.root()).expect("a folder").count();
    let before = files();
    let text = show(&sandbox, &[]);
    let json = show(&sandbox, &["--json"]);
    assert!(!text.contains("hush") && !json.contains("hush"), "{text}");
    assert_eq!(files(), before, "a file was made");

    let file = sandbox.path("sekisho.toml").display().to_string();
    for (begin, origin) in [
        ("https = [\"127.0.0.1:8443\"]", ":2"),
        ("admin_token = \"env:SHOWN_TOKEN\"", ":4"),
        (
            "url = \"postgres://u:***@127.0.0.1:1/d?password=***&pool=2\"",
            ":8",
        ),
        ("master = \"file:master.key\"", ":10"),
        ("redis = \"rediss://:***@127.0.0.1:1/3\"", ":12"),
        ("request.set.Authorization = \"***\"", ":17"),
        ("redirect = \"https://www.example.com/?token=***\"", ":20"),
        ("ask = \"https://u:***@ask.example/\"", ":31"),
        ("eab_key = \"file:eab.key\"", ":34"),
        ("webhook = \"https://u:***@dns.example/?token=***\"", ":36"),
        ("password = \"env:SHOWN_PASSWORD\"", ":38"),
        ("customers = \"postgres://u:***@127.0.0.1:1/c\"", ":42"),
        ("workers = 3", ":44"),
    ] {
        let line = text.lines().find(|line| line.starts_with(begin));
        let line = line.unwrap_or_else(|| panic!("{begin}: {text}"));
        let origin = format!("  # {file}{origin}");
        assert!(line.ends_with(&origin), "{origin}: {line}");
    }
    let lines = |begin: &str| text.lines().filter(|line| line.starts_with(begin)).count();
    assert_eq!(lines("[[site.paths]]"), 1);
    assert_eq!(lines("# http =  "), 1, "{text}");
    let defaults = text.lines().filter(|line| line.ends_with("  # default"));
    assert!(defaults.count() > 30, "{text}");

    let items: Vec<Value> = serde_json::from_str(&json).expect("a list");
    let item = |key: &str| items.iter().find(|item| item["key"] == key).expect("a key");
    let workers =
        json!({"key": "server.workers", "value": 3, "origin": {"file": file, "line": 44}});
    assert_eq!(*item("server.workers"), workers);
    let fresh = json!({"key": "cache.fresh", "value": "60s", "origin": "default"});
    assert_eq!(*item("cache.fresh"), fresh);
    let ca = json!({"key": "store.ca", "value": null, "origin": "default"});
    assert_eq!(*item("store.ca"), ca);
}

#[test]
fn the_output_is_a_configuration() {
    let sandbox = everything();
    sandbox.write_private("shown.toml", &show(&sandbox, &[]));
    let again = show(&sandbox, &["--config", "shown.toml", "--json"]);
    let shown = values(&show(&sandbox, &["--json"]));
    assert_eq!(values(&again), shown);
    // A section that is not set is a comment, and stays one.
    let plain = Sandbox::new();
    let text = show(&plain, &[]);
    assert!(text.contains("\n# [acme]  # not set\n"), "{text}");
    plain.write("shown.toml", &text);
    let again = show(&plain, &["--config", "shown.toml", "--json"]);
    assert_eq!(values(&again), values(&show(&plain, &["--json"])));
    assert_eq!(values(&again)["hook"], Value::Null);
}

#[test]
fn a_bad_configuration_is_refused_as_by_check() {
    let sandbox = Sandbox::new();
    for text in [
        "[listen]\nhtps = []\n[server]\nworkers = 0\n",
        "[listen\n",
        "[listen]\nhttps = [\"127.0.0.1:8443\"]\n",
    ] {
        sandbox.write("sekisho.toml", text);
        let errors = sandbox.fails(&["config", "show"]);
        assert_eq!(errors, sandbox.fails(&["check"]));
        assert!(errors.contains("sekisho.toml:"), "{errors}");
    }
    let missing = ["--config", "missing.toml"];
    let errors = sandbox.fails(&[&["config", "show"], &missing[..]].concat());
    assert_eq!(errors, sandbox.fails(&[&["check"], &missing[..]].concat()));
}

#[test]
fn a_large_configuration_is_shown_in_linear_time() {
    let sandbox = Sandbox::new();
    let zones = (0..5000).map(|zone| format!("[acme.dns.\"z{zone}.example\"]\nexec = \"a\"\n"));
    let acme = "[acme]\nagree = true\ncas = [\"letsencrypt\"]\n";
    sandbox.configure(&format!("{acme}{}", zones.collect::<String>()));
    let begun = Instant::now();
    let text = show(&sandbox, &[]);
    assert!(text.contains("[acme.dns.\"z4999.example\"]\n"));
    // Quadratic work takes minutes.
    assert!(begun.elapsed().as_secs() < 20, "{:?}", begun.elapsed());
}
