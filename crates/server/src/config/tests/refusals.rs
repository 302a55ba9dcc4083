//! What is refused, and in which words.

use super::*;

#[test]
fn an_unknown_key_is_named_with_its_line() {
    for (text, expected) in [
        (
            "[listen]\nhtps = []\n",
            "sekisho.toml:2: [listen] htps: unknown key `htps`; did you mean `https`?",
        ),
        (
            "\n\n[lisen]\nhttps = []\n",
            "sekisho.toml:3: [lisen]: unknown key `lisen`; did you mean `listen`?",
        ),
        (
            "[cache]\nmemory = \"64MiB\"\n# note\nfreshh = \"1s\"\n",
            "sekisho.toml:4: [cache] freshh: unknown key `freshh`; did you mean `fresh`?",
        ),
        (
            "cache = { memory = \"64MiB\", limit = 1 }\n",
            "sekisho.toml:1: [cache] limit: unknown key `limit`; known here: memory, fresh, absent, files, disk, disk_size, redis",
        ),
        (
            "store.url = \"sqlite:a\"\nstore.pool = 3\n",
            "sekisho.toml:2: [store] pool: unknown key `pool`; known here: url, token, ca",
        ),
        (
            "[site]\nroot = \"/a\"\nindex = \"x\"\n",
            "sekisho.toml:3: [site] index: unknown key `index`; known here: root, redirect, status, upstream",
        ),
        (
            "[server]\n\"worker s\" = 1\n",
            "sekisho.toml:2: [server] \"worker s\": unknown key `worker s`; did you mean `workers`?",
        ),
    ] {
        assert_eq!(refusal(text), format!("/etc/sekisho/{expected}"));
    }
}

#[test]
fn what_is_not_built_is_refused_by_name() {
    let upstream = refusal(&format!(
        "{LEAST}[site]\nupstream = \"http://127.0.0.1:8000\"\n"
    ));
    assert!(
        upstream.contains(".toml:4: [site] upstream: `upstream` is not built yet"),
        "{upstream}"
    );
}

#[test]
fn a_redis_level_stands_before_a_catalog_and_is_no_cluster() {
    let level = |store: &str, url: &str| {
        let text = LEAST.replace("sqlite:a.db", store);
        refusal(&format!("{text}[cache]\nredis = \"{url}\"\n"))
    };
    for (store, url, expected) in [
        (
            "sqlite:a.db",
            "redis+cluster://h",
            "a Cluster can be no level: a host and",
        ),
        (
            "sqlite:a.db",
            "redis://h?chain={host}.c&key={host}.k",
            "keys of its own",
        ),
        ("sqlite:a.db", "postgres://h/d", "begins with redis://"),
        ("sqlite:a.db", "redis://:c2VjcmV0@h:x", "HOST:PORT"),
        (
            "redis://h",
            "redis://h",
            "only a catalog, sqlite: or postgres://",
        ),
        (
            "files:/{host}",
            "redis://h",
            "only a catalog, sqlite: or postgres://",
        ),
        (
            "https://h/{host}",
            "redis://h",
            "only a catalog, sqlite: or postgres://",
        ),
    ] {
        let error = level(store, url);
        assert!(
            error.contains("[cache] redis: ") && error.contains(expected),
            "{store} {url}: {error}"
        );
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}

#[test]
fn a_wrong_value_names_line_key_and_remedy() {
    for (line, expected) in WRONG {
        let error = refusal(&format!("{LEAST}{line}\n"));
        let place = "/etc/sekisho/sekisho.toml:3: ";
        assert!(
            error.starts_with(place) && error.contains(expected),
            "{line}: {error}"
        );
    }
}

#[test]
fn a_wrong_secret_is_not_repeated() {
    for line in [
        "keys.master = \"c2VjcmV0\"",
        "listen.admin_token = \"c2VjcmV0\"",
    ] {
        assert!(
            !refusal(&format!("{LEAST}{line}")).contains("c2VjcmV0"),
            "{line}"
        );
    }
    for (url, line) in [
        ("https://me:c2VjcmV0@h/{host}", ""),
        ("https://h/{host}", "store.token = \"c2VjcmV0\""),
    ] {
        let text = LEAST.replace("sqlite:a.db", url) + line;
        assert!(!refusal(&text).contains("c2VjcmV0"), "{url}");
    }
    for url in [
        "redis://:c2VjcmV0",
        "redis://u:c2VjcmV0@h:x",
        "redis://:c2VjcmV0/@h",
    ] {
        let error = refusal(&LEAST.replace("sqlite:a.db", url));
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}

#[test]
fn what_must_be_there_is_asked_for() {
    let file = "/etc/sekisho/sekisho.toml";
    assert_eq!(
        refusal(""),
        format!(
            "{file}: [listen] https: is missing; write https = [\"0.0.0.0:443\", \"[::]:443\"]"
        )
    );
    let empty = refusal("\n[listen]\nhttps = []\n");
    assert!(
        empty.starts_with(&format!("{file}:3: [listen] https: is missing")),
        "{empty}"
    );
    let nearest = refusal("[listen]\nhttps = [\"127.0.0.1:1\"]\n[store]\n");
    assert!(
        nearest.starts_with(&format!("{file}:3: [store] url: is missing")),
        "{nearest}"
    );
    for (url, expected) in [
        (
            "",
            "is no store; write \"sqlite:PATH\", \"postgres://USER@HOST/DATABASE\", \"files:",
        ),
        (
            "postgres://u:hush@h/d?hush=1",
            "a parameter that is not known",
        ),
        ("postgres://u:hush@sh@h/d", "in a password write %40"),
        ("hosts.db", "is no store"),
        ("sqlite:", "the path must not be empty"),
        ("mysql://h/d", "\"mysql\" is no kind of store"),
        ("files:/certs", "no place for the name; write {host}"),
        (
            "files:/{host}.crt,/key",
            "\"/key\" has no place for the name",
        ),
        ("files:/{host},/{host},/{host}", "one pattern, or two"),
        (
            "https://h/",
            "this URL of a store has no place for the name",
        ),
        ("http://h/{host}", "private keys travel in the clear to h"),
        (
            "https://me:pw@h/{host}",
            "must hold no user and no password",
        ),
        ("redis:127.0.0.1", "begins with redis://"),
        ("redis://h/x", "/DATABASE, a number"),
    ] {
        let error = refusal(&LEAST.replace("sqlite:a.db", url));
        assert!(
            error.contains(&format!("{file}:2: [store] url: ")),
            "{error}"
        );
        assert!(error.contains(expected), "{url}: {error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

#[test]
fn a_key_that_the_store_does_not_have_is_refused() {
    for (url, line, expected) in [
        (
            "sqlite:a.db",
            "store.token = \"env:T\"",
            "[store] token: only a store behind https:// has it",
        ),
        (
            "files:/{host}",
            "store.ca = \"ca.pem\"",
            "[store] ca: only a store behind https:// has it",
        ),
        (
            "http://127.0.0.1/{host}",
            "store.ca = \"ca.pem\"",
            "[store] ca: http:// has no certificate to verify",
        ),
        (
            "https://h/{host}",
            "store.ca = \"\"",
            "[store] ca: the path must not be empty",
        ),
        (
            "https://h/{host}",
            "store.token = \"t\"",
            "[store] token: this is no source of a token",
        ),
    ] {
        let error = refusal(&format!("{}{line}\n", LEAST.replace("sqlite:a.db", url)));
        assert!(
            error.contains(".toml:3: ") && error.contains(expected),
            "{error}"
        );
    }
}

/// A line behind [`LEAST`], and what is said of it.
const WRONG: &[(&str, &str)] = &[
    (
        "cache.memory = \"64\"",
        "[cache] memory: \"64\" is no size; write a whole number with B",
    ),
    (
        "cache.memory = \"1KiB\"",
        "[cache] memory: 1KiB is out of range; write 1MiB to 1TiB",
    ),
    (
        "cache.memory = 64",
        "[cache] memory: invalid type: integer `64`, expected a text in quotes",
    ),
    ("cache.files = \"1B\"", "[cache] files: 1B is out of range"),
    (
        "cache.disk = \"warm.db\"",
        "[cache] disk: the store is on this machine itself; leave the key out",
    ),
    (
        "cache.disk_size = \"1MiB\"",
        "[cache] disk_size: 1MiB is out of range; write 4MiB to 1TiB",
    ),
    (
        "cache.fresh = \"1\"",
        "[cache] fresh: \"1\" is no duration; write a whole number with ms",
    ),
    (
        "cache.fresh = \"0s\"",
        "[cache] fresh: 0s is out of range; write 1s to 1d",
    ),
    (
        "cache.absent = \"2h\"",
        "[cache] absent: 2h is out of range; write 100ms to 1h",
    ),
    (
        "server.workers = 0",
        "[server] workers: 0 is out of range; write 1 to 1024",
    ),
    (
        "server.workers = -3",
        "[server] workers: -3 is out of range",
    ),
    (
        "server.workers = \"two\"",
        "[server] workers: invalid type: string \"two\", expected a whole number",
    ),
    (
        "server.workers = 1.5",
        "[server] workers: invalid type: floating point `1.5`",
    ),
    (
        "server.connections = 0",
        "[server] connections: 0 is out of range",
    ),
    (
        "server.handshake_timeout = \"1h\"",
        "[server] handshake_timeout: 1h is out of range; write 100ms to 5m",
    ),
    (
        "server.header_timeout = \"0s\"",
        "[server] header_timeout: 0s is out of range",
    ),
    (
        "server.idle_timeout = \"1ms\"",
        "[server] idle_timeout: 1ms is out of range",
    ),
    (
        "server.body_timeout = \"1d\"",
        "[server] body_timeout: 1d is out of range",
    ),
    (
        "server.drain_timeout = \"2h\"",
        "[server] drain_timeout: 2h is out of range; write 0s to 1h",
    ),
    (
        "server.absent_per_prefix = 0",
        "[server] absent_per_prefix: 0 is out of range",
    ),
    ("server.loads = 0", "[server] loads: 0 is out of range"),
    (
        "server.loads_per_prefix = 257",
        "[server] loads_per_prefix: 257 is out of range; write 1 to 256",
    ),
    (
        "server.loads_waiting = -1",
        "[server] loads_waiting: -1 is out of range",
    ),
    (
        "listen.http = [\"127.0.0.1:1\", \"localhost:80\"]",
        "[listen] http[1]: \"localhost:80\" is no address with a port",
    ),
    (
        "listen.http = [\"127.0.0.1\"]",
        "[listen] http[0]: \"127.0.0.1\" is no address with a port",
    ),
    (
        "listen.http = \"127.0.0.1:80\"",
        "[listen] http: invalid type: string \"127.0.0.1:80\", expected a list in [ ]",
    ),
    (
        "listen.http = [\"127.0.0.1:8443\"]",
        "[listen] http: 127.0.0.1:8443 already stands in https",
    ),
    (
        "listen.admin = \"9443\"",
        "[listen] admin: \"9443\" is no address with a port",
    ),
    (
        "listen.admin = \"0.0.0.0:9443\"",
        "[listen] admin: 0.0.0.0:9443 can be reached from elsewhere; use 127.0.0.1, or write admin_token",
    ),
    (
        "listen.admin = \"[::ffff:192.0.2.1]:1\"",
        "can be reached from elsewhere",
    ),
    (
        "listen.admin_token = \"secret\"",
        "[listen] admin_token: this is no source of a token; write \"file:PATH\" or \"env:NAME\"",
    ),
    (
        "keys.master = \"c2VjcmV0\"",
        "[keys] master: this is no source of a key; write \"file:PATH\"",
    ),
    (
        "keys.master = \"env:\"",
        "[keys] master: this is no source of a key",
    ),
    (
        "keys.master = \"file:\"",
        "[keys] master: this is no source of a key",
    ),
    (
        "keys.master = \"command: \"",
        "[keys] master: this is no source",
    ),
    (
        "tickets.key_file = \"\"",
        "[tickets] key_file: the path must not be empty",
    ),
    (
        "default.\"*\" = \"*.example.com\"",
        "[default] \"*\": \"*.example.com\" is no host name: '*' must not stand",
    ),
    (
        "default.\"*\" = \"127.0.0.1\"",
        "[default] \"*\": \"127.0.0.1\" is no host name: an IP address",
    ),
    (
        "default.\"127.0.0.1:1\" = \"a.example\"",
        "[default] \"127.0.0.1:1\": 127.0.0.1:1 does not stand in [listen] https",
    ),
    (
        "default.x = \"a.example\"",
        "[default] x: \"x\" is no address with a port",
    ),
    (
        "site.status = 200",
        "[site] status: 200 is not a status from 400 to 599",
    ),
    ("site.root = \"\"", "[site] root: a path must not be empty"),
    (
        "site.root = \"/{x}\"",
        "[site] root: \"/{x}\" has braces other than {host}",
    ),
    (
        "site.redirect = \"x\"",
        "[site] redirect: \"x\" is no absolute http or https URL",
    ),
    ("site = {}", "[site]: a site has exactly one of"),
    (
        "site = { root = \"/a\", status = 404 }",
        "[site]: a site has exactly one of",
    ),
    ("site = 3", "[site]: invalid type: integer `3`"),
    ("x", "key with no value"),
    ("[listen", "unclosed table"),
    ("store.url = \"sqlite:b.db\"", "duplicate key"),
];
