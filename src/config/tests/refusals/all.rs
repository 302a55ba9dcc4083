//! Tests that all problems of a file are told at once.

use super::*;

/// Returns the lines of a refusal, from the number of the line on.
fn told(text: &str) -> Vec<String> {
    let refusal = refusal(text);
    let file = "/etc/sekisho/sekisho.toml:";
    let lines = refusal.lines().map(|line| {
        let line = line.strip_prefix(file);
        line.unwrap_or_else(|| panic!("{refusal}")).to_owned()
    });
    lines.collect()
}

fn assert_told(text: &str, expected: &[&str]) {
    let told = told(text);
    assert_eq!(told.len(), expected.len(), "{told:#?}");
    for (told, expected) in told.iter().zip(expected) {
        assert!(told.starts_with(expected), "{told}, not {expected}");
    }
}

#[test]
fn problems_of_all_kinds_are_told_in_the_order_of_lines() {
    let text = "[hook]
script = \"a\"
deadline = \"1s\"
cpu = \"2s\"
[listen]
https = [\"127.0.0.1:8443\", \"localhost:1\", \"127.0.0.1\"]
http = [\"127.0.0.1:8443\"]
admin = \"0.0.0.0:1\"
trusted = [\"10.0.0.5/8\", \"lb\"]
[store]
url = \"files:/srv/certs/{host}\"
token = \"t\"
[cache]
memory = 64
disk = \"x.db\"
fresh = \"0s\"
absent = \"2d\"
[sites]
allow = [\"/\", \"/srv\", \"../x\"]
[site]
root = \"/srv\"
[server]
workers = 0
requests = 1
handshake_timeout = \"1h\"
[acme]
cas = [\"internal\", \"lets-encrypt\"]
contact = [\"ops\"]
[acme.ca.internal]
root = \"a.pem\"
quotas = { orders = \"x\", failures = \"y\" }
[acme.dns.\"a.example\"]
rfc2136 = \"ns\"
";
    assert_told(
        text,
        &[
            "3: [hook] deadline: it is called `timeout` now",
            "4: [hook] cpu: 2s is out of range",
            "6: [listen] https[1]: \"localhost:1\" is no address",
            "6: [listen] https[2]: \"127.0.0.1\" is no address",
            "7: [listen] http: 127.0.0.1:8443 already stands in https",
            "8: [listen] admin: 0.0.0.0:1 can be reached from elsewhere",
            "9: [listen] trusted[0]: \"10.0.0.5/8\" has bits set",
            "9: [listen] trusted[1]: \"lb\" is no network",
            "12: [store] token: only a store behind https:// has it",
            "12: [store] token: this is no source of a secret",
            "14: [cache] memory: invalid type: integer `64`",
            "15: [cache] disk: the store is on this machine itself",
            "16: [cache] fresh: 0s is out of range",
            "17: [cache] absent: 2d is out of range",
            "19: [sites] allow[0]: / would let",
            "19: [sites] allow[2]: ",
            "21: [site] root: /srv holds /srv/certs",
            "23: [server] workers: 0 is out of range",
            "24: [server] requests: it is gone",
            "25: [server] handshake_timeout: 1h is out of range",
            "26: [acme]: needs a store that this server writes",
            "26: [acme] agree: required",
            "27: [acme] cas[1]: \"lets-encrypt\" is no known CA",
            "28: [acme] contact[0]: \"ops\" is no mailto: URI",
            "29: [acme] ca.internal.directory: is missing",
            "30: [acme] ca.internal.root: it is called `ca` now",
            "31: [acme] ca.internal.quotas.orders: \"x\" is no limit",
            "31: [acme] ca.internal.quotas.failures: \"y\" is no limit",
            "32: [acme] dns.\"a.example\".tsig: is missing",
            "33: [acme] dns.\"a.example\".rfc2136: \"ns\" is no address",
        ],
    );
}

/// A key that is misspelt, or whose value can't be read, is no missing key, too.
#[test]
fn what_follows_from_a_problem_is_none() {
    for (text, expected) in [
        (
            "[listen]\nhtps = [\"127.0.0.1:1\"]\n[store]\nurl = \"sqlite:a\"\n",
            "2: [listen] htps: unknown",
        ),
        (
            "[lisen]\nhttps = [\"127.0.0.1:1\"]\n[store]\nurl = \"sqlite:a\"\n",
            "1: [lisen]: unknown",
        ),
        (
            "[listen]\nhttps = \"127.0.0.1:1\"\n[store]\nurl = \"sqlite:a\"\n",
            "2: [listen] https: invalid type",
        ),
        (
            "[listen]\nhttps = [\"1\"]\n[default]\n\"127.0.0.1:1\" = \"a.example\"\n[store]\nurl = \"sqlite:a\"\n",
            "2: [listen] https[0]: ",
        ),
        (
            "[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\nurl = \"x:a\"\n[acme]\nagree = true\ncas = [\"google\"]\n[cache]\ndisk = \"a\"\n",
            "4: [store] url: ",
        ),
        (
            "[listen]\nhttps = [\"127.0.0.1:1\"]\nadmin = \"0.0.0.0:1\"\nadmin_tokn = \"env:T\"\n[store]\nurl = \"sqlite:a\"\n",
            "4: [listen] admin_tokn: unknown",
        ),
        (
            "[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\nurl = \"sqlite:a\"\n[acme]\nagree = \"yes\"\ncas = [\"google\"]\n",
            "6: [acme] agree: invalid type",
        ),
        (
            "[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\nurl = \"sqlite:a\"\n[acme]\nagree = true\nca = [\"google\"]\n",
            "7: [acme] ca: a list of CAs is called `cas`",
        ),
        (
            "[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\nurl = \"sqlite:a\"\n[server]\nloads = 0\nloads_per_prefix = 9\n",
            "6: [server] loads: 0 is out",
        ),
    ] {
        assert_told(text, &[expected]);
    }
}

#[test]
fn each_key_of_the_site_tells_its_first_problem() {
    let minimal = "listen.https = [\"127.0.0.1:1\"]\nstore.url = \"sqlite:a\"\n[site]\n";
    assert_told(
        &format!(
            "{minimal}upstream = {{ servers = [\"http://a\", \"b\", \"c\"] }}\nadd = \"/x\"\n\
             body_limit = \"x\"\nautoindex = true\n[site.rate]\nclient = 0\n"
        ),
        &[
            "4: [site] upstream.servers[1]: ",
            "6: [site] body_limit: ",
            "7: [site] autoindex: unknown key",
            "9: [site] rate.client: 0 is out of range",
        ],
    );
    assert_told(
        &format!("{minimal}rot = \"/srv\"\ntry = [\"a\"]\n"),
        &["4: [site] rot: unknown key `rot`; did you mean `root`?"],
    );
    // What answers instead is not asked for: the key is no answer of `[site]`.
    for answer in ["", "root = \"/srv\"\n"] {
        assert_told(
            &format!("{minimal}as = \"b.example\"\n{answer}"),
            &["4: [site] as: hosts without a site of their own can't all be one host"],
        );
    }
}

#[test]
fn mistakes_in_the_syntax_of_several_lines_are_told() {
    assert_told(
        "listen.https = [\"127.0.0.1:1\"]\nstore.url = sqlite:a\nserver.workers = 0\n\
         acme.agree = yes\nstore.ca = \"a\nsite\nlistn.x = 1\n",
        &[
            "2: sqlite:a is no value; a text stands in quotes: \"sqlite:a\"",
            "4: yes is no value; write true",
            "5: invalid basic string",
            "6: key with no value",
        ],
    );
}

#[test]
fn a_file_of_something_else_is_refused_with_a_bounded_text() {
    let lines = (0..10_000).map(|number| format!("k{number} = 1\n"));
    assert_eq!(told(&lines.collect::<String>()).len(), 100);
    assert!(told(&"x\n".repeat(10_000)).len() <= 100);
    let wrong = "\"x\", ".repeat(10_000);
    let listen = format!("listen.https = [\"127.0.0.1:1\"]\nlisten.trusted = [{wrong}]\n");
    let text = format!("{listen}store.url = \"sqlite:a\"\n");
    assert_eq!(told(&text).len(), 100);
}
