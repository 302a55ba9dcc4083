//! Tests which configurations are refused, and the error texts.

use super::*;

mod acme;
mod all;
mod gone;
mod values;

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
            "[server]\n\"worker s\" = 1\n",
            "sekisho.toml:2: [server] \"worker s\": unknown key `worker s`; did you mean `workers`?",
        ),
    ] {
        let error = refusal(text);
        let first = error.lines().next().unwrap();
        assert_eq!(first, format!("/etc/sekisho/{expected}"));
    }
}

#[test]
fn a_wrong_value_of_the_site_is_named_with_its_line_and_path() {
    for (text, expected) in [
        (
            "[site]\nupstream = \"127.0.0.1:8000\"\n",
            "4: [site] upstream: \"127.0.0.1:8000\" is no URL of a server",
        ),
        (
            "[[site.paths]]\npath = \"/\"\nstatus = 404\n[[site.paths]]\npath = \"/a\"\n\
             upstream = { servers = [\"http://a\", \"http://b/c\"] }\n",
            "8: [site] paths[1].upstream.servers[1]: \"http://b/c\" has more than a host",
        ),
        (
            "[site]\nstatus = 503\n[site.rate]\nclient = 0\n",
            "6: [site] rate.client: 0 is out of range; write 1 to 1000000",
        ),
        (
            "[site]\nroot = \"/a\"\nautoindex = true\n",
            "5: [site] autoindex: unknown key `autoindex`; known here: paths, path, methods, root,",
        ),
        (
            "[site]\nroot = 1\n",
            "4: [site] root: invalid type: integer `1`, expected a text in quotes",
        ),
    ] {
        let error = refusal(&format!(
            "listen.https = [\"127.0.0.1:8443\"]\nstore.url = \"sqlite:a.db\"\n{text}"
        ));
        assert!(error.contains(&format!(".toml:{expected}")), "{error}");
    }
}

#[test]
fn a_redis_cache_stands_before_a_catalog_and_is_no_cluster() {
    let redis = |store: &str, url: &str| {
        let text = MINIMAL.replace("sqlite:a.db", store);
        refusal(&format!("{text}[cache]\nredis = \"{url}\"\n"))
    };
    for (store, url, expected) in [
        (
            "sqlite:a.db",
            "redis+cluster://h",
            "a Cluster can be no cache before a store",
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
            "only postgres:// has a use for it",
        ),
        (
            "files:/{host}",
            "redis://h",
            "only postgres:// has a use for it",
        ),
        (
            "https://h/{host}",
            "redis://h",
            "only postgres:// has a use for it",
        ),
    ] {
        let error = redis(store, url);
        assert!(
            error.contains("[cache] redis: ") && error.contains(expected),
            "{store} {url}: {error}"
        );
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
}

#[test]
fn a_wrong_secret_is_not_repeated() {
    for line in [
        "keys.master = \"c2VjcmV0\"",
        "listen.admin_token = \"c2VjcmV0\"",
    ] {
        assert!(
            !refusal(&format!("{MINIMAL}{line}")).contains("c2VjcmV0"),
            "{line}"
        );
    }
    for (url, line) in [
        ("https://me:c2VjcmV0@h/{host}", ""),
        ("https://h/{host}", "store.token = \"c2VjcmV0\""),
    ] {
        let text = MINIMAL.replace("sqlite:a.db", url) + line;
        assert!(!refusal(&text).contains("c2VjcmV0"), "{url}");
    }
    for url in [
        "redis://:c2VjcmV0",
        "redis://u:c2VjcmV0@h:x",
        "redis://:c2VjcmV0/@h",
    ] {
        let error = refusal(&MINIMAL.replace("sqlite:a.db", url));
        assert!(!error.contains("c2VjcmV0"), "{error}");
    }
    for line in [
        "keys.master = c2VjcmV0",
        "keys.master = 7217217",
        "listen.admin_token = c2VjcmV0 # c2VjcmV0",
        "[keys]\nmaster = c2VjcmV0",
        "store.token = c2VjcmV0",
        "acme.ca.own.eab_key = c2VjcmV0",
        "acme.dns.\"a.example\" = { user = \"u\", password = c2VjcmV0 }",
        "acme.dns.\"a.example\".password = 7217217",
        "acme.dns.\"a.example\".tsig = c2VjcmV0",
        "acme.dns.\"a.example\".tsig = [\nc2VjcmV0\n]",
        "cache.redis = redis://:c2VjcmV0",
        "hook.sql.own = postgres://u:c2VjcmV0@h/d",
        "hook.sql.own = postgres://u:7217217#c2VjcmV0@h/d",
        "hook.sql = \"postgres://u:c2VjcmV0@h/d\"",
        "keys = \"c2VjcmV0\"",
    ] {
        let error = refusal(&format!("{MINIMAL}{line}\n"));
        let is_told = error.contains("quotes") || error.contains("invalid type: ");
        assert!(is_told, "{line}: {error}");
        for secret in ["c2VjcmV0", "7217217"] {
            assert!(!error.contains(secret), "{line}: {error}");
        }
    }
}

#[test]
fn what_must_be_there_is_asked_for() {
    let file = "/etc/sekisho/sekisho.toml";
    assert_eq!(
        refusal(""),
        format!(
            "{file}: [listen] https: is missing; write https = [\"0.0.0.0:443\", \"[::]:443\"]\n\
             {file}: [store] url: is missing; write url = \"sqlite:hosts.db\""
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
        (
            "files:/{host},/{host},/{host}",
            "only one comma between two patterns",
        ),
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
        let error = refusal(&MINIMAL.replace("sqlite:a.db", url));
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
            "[store] token: this is no source of a secret",
        ),
    ] {
        let error = refusal(&format!("{}{line}\n", MINIMAL.replace("sqlite:a.db", url)));
        assert!(
            error.contains(".toml:3: ") && error.contains(expected),
            "{error}"
        );
    }
}

#[test]
fn a_site_that_holds_the_stores_keys_is_refused() {
    let text = MINIMAL.replace(
        "sqlite:a.db",
        "files:/etc/certs/{host}.crt,/etc/keys/{host}.key",
    );
    for root in ["/etc", "/etc/keys", "/etc/keys/{host}", "/"] {
        let refused = refusal(&format!("{text}site.root = \"{root}\"\n"));
        assert!(refused.contains("[site] root: "), "{refused}");
        assert!(
            refused.contains("where the store's private keys are"),
            "{refused}"
        );
    }
    for root in ["/srv", "/etc/keys/www", "/etc/keysx/{host}"] {
        parse(&format!("{text}site.root = \"{root}\"\n")).unwrap();
    }
}
