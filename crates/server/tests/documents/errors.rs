//! Tests limits, and errors by their path of keys.

use std::thread;

use sekisho_server::site::MAX_DOCUMENT;
use sekisho_testkit::{Key, TestCa};
use serde_json::json;

use super::{of_tenant, site};

#[test]
fn an_error_names_the_path_of_its_key() {
    for (json, expected) in ERRORS {
        let error = site(json).expect_err(json).to_string();
        assert!(error.contains(expected), "{json}\n{error}");
    }
}

#[test]
fn paths_in_paths_are_refused_at_every_depth() {
    // Of a worker: each level takes room on it.
    let worker = thread::Builder::new().stack_size(2 << 20);
    let reads = worker.spawn(|| {
        for depth in 1..=80 {
            let json = r#"{"paths": ["#.repeat(depth) + "{}" + &"]}".repeat(depth);
            let error = site(&json).err().map(|error| error.to_string());
            let refused = |error: &String| error.contains("paths");
            assert!(error.as_ref().is_some_and(refused), "{depth}: {error:?}");
        }
    });
    reads.unwrap().join().unwrap();
}

/// Certificates that verify no other would fail each connection to the upstream.
#[test]
fn the_ca_of_an_upstream_is_an_authority() {
    let ca = TestCa::new();
    let pair = ca.issue(&["a.example"], Key::P256);
    let broken = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned();
    let of = |pem: &str| {
        let tls = json!({ "ca": pem });
        let upstream = json!({ "servers": ["https://a"], "tls": tls });
        site(&json!({ "upstream": upstream }).to_string())
    };
    of(&ca.root_pem()).unwrap();
    of(&format!("Our CA\n{}", ca.root_pem().repeat(2))).unwrap();
    for (pem, says) in [
        (pair.leaf_pem(), "neither an authority's (CA:TRUE)"),
        (ca.root_pem() + &pair.leaf_pem(), "neither an authority's"),
        (broken, "certificate 1 is broken"),
        (ca.root_pem() + &pair.key_pem(), "holds a private key"),
    ] {
        let error = of(&pem).unwrap_err().to_string();
        let key = "`upstream.tls.ca`: ";
        assert!(error.starts_with(key) && error.contains(says), "{error}");
    }
}

#[test]
fn a_wrong_url_shows_no_password() {
    let error = site(r#"{"upstream": "http://me:c2VjcmV0@a"}"#).unwrap_err();
    assert!(!error.to_string().contains("c2VjcmV0"), "{error}");
}

#[test]
fn a_document_is_bounded() {
    let text = |length| json!({ "status": 503, "text": "a".repeat(length) }).to_string();
    let error = site(&text(1 << 20)).unwrap_err().to_string();
    assert!(error.contains("more than the 262144"), "{error}");
    let error = site(&text(20_000)).unwrap_err().to_string();
    assert!(
        error.contains("`text`: 20000 bytes are more than 16384"),
        "{error}"
    );
    let mut padded = text(16_384);
    padded.push_str(&" ".repeat(MAX_DOCUMENT - padded.len()));
    site(&padded).unwrap();

    let paths = |count: usize| {
        let paths = (0..count).map(|path| json!({ "path": format!("/{path}"), "status": 404 }));
        json!({ "paths": paths.collect::<Vec<_>>() }).to_string()
    };
    site(&paths(64)).unwrap();
    let error = site(&paths(65)).unwrap_err().to_string();
    assert!(
        error.contains("`paths`: 65 paths are more than 64"),
        "{error}"
    );

    let servers = |count: usize| {
        let servers = (0..count).map(|server| format!("http://10.0.0.{server}"));
        json!({ "upstream": { "servers": servers.collect::<Vec<_>>() } }).to_string()
    };
    site(&servers(32)).unwrap();
    let error = site(&servers(33)).unwrap_err().to_string();
    assert!(
        error.contains("`upstream.servers`: write 1 to 32"),
        "{error}"
    );
    // Deep nesting ends in an error, too.
    let deep = format!("{}{}", "[".repeat(30_000), "]".repeat(30_000));
    site(&deep).unwrap_err();
}

#[test]
fn a_tenant_is_one_folder() {
    let json = r#"{"root": "/srv/{tenant}/{host}", "errors": "/srv/{tenant}.errors"}"#;
    let of = |tenant: &str| of_tenant(json, tenant);
    let site = of("anna_1.b-c").unwrap();
    let roots: Vec<_> = site.roots().collect();
    assert_eq!(roots, ["/srv/anna_1.b-c/{host}", "/srv/anna_1.b-c.errors"]);
    for tenant in ["", ".", "..", "a/b", "../b", "ä", "a b", "{host}", "a\\b"] {
        let error = of(tenant).expect_err(tenant).to_string();
        assert!(error.contains("`root`: {tenant} stands for"), "{error}");
    }
}

/// Documents, and what their errors say.
const ERRORS: &[(&str, &str)] = &[
    ("{", "can't be read: EOF while parsing"),
    (
        r#"["paths", "/srv"]"#,
        "invalid type: sequence, expected a table",
    ),
    (
        r#"{"paths": [["/a"]]}"#,
        "`paths[0]`: invalid type: sequence, expected a table",
    ),
    (
        r#"{"status": 404, "hsts": [1]}"#,
        "`hsts`: invalid type: sequence, expected a table",
    ),
    (
        r#"{"upstream": {"servers": [["http://a"]]}}"#,
        "`upstream.servers[0]`: invalid type: sequence",
    ),
    (r#"{"status": 404} x"#, "can't be read: trailing characters"),
    (
        r#"{"statsu": 404}"#,
        "`statsu`: unknown key `statsu`; did you mean `status`?",
    ),
    (
        r#"{"status": 404, "status": 503}"#,
        "a key stands twice: `status`",
    ),
    (
        r#"{"status": 404, "text": 1}"#,
        "`text`: invalid type: integer `1`, expected a text",
    ),
    (
        r#"{"status": 404.5}"#,
        "`status`: invalid type: floating point `404.5`, expected a whole number",
    ),
    (r#"{"root": "/a", "text": "x"}"#, "`text`: only a `status`"),
    (
        r#"{"path": "/a", "status": 404}"#,
        "`path`: only items of `paths` have a path",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 404, "paths": []}]}"#,
        "`paths[0].paths`: only the top level has `paths`",
    ),
    (
        r#"{"paths": [{"status": 404}]}"#,
        "`paths[0].path`: is missing",
    ),
    (
        r#"{"paths": [{"path": "/a"}]}"#,
        "`paths[0]`: a site has exactly one of",
    ),
    (
        r#"{"paths": [{"path": "/a/", "status": 404}]}"#,
        "`paths[0].path`: \"/a/\" ends with a slash",
    ),
    (
        r#"{"paths": [{"path": "a", "status": 404}]}"#,
        "`paths[0].path`: \"a\" is no plain path",
    ),
    (
        r#"{"paths": [{"path": "/a%20", "status": 404}]}"#,
        "`paths[0].path`",
    ),
    (
        r#"{"paths": [{"path": "/a/../b", "status": 404}]}"#,
        "`paths[0].path`",
    ),
    (
        r#"{"paths": [{"path": "/a//b", "status": 404}]}"#,
        "`paths[0].path`",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 404}, {"path": "/a", "status": 404}]}"#,
        "`paths[1].path`: the path stands twice",
    ),
    (
        r#"{"status": 404, "paths": [{"path": "/", "status": 404}]}"#,
        "`paths[0].path`: the path stands twice",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 200}]}"#,
        "`paths[0].status`: 200 is not",
    ),
    (
        r#"{"paths": [{"path": "/a", "redirect": "x"}]}"#,
        "`paths[0].redirect`: \"x\" is no absolute",
    ),
    (
        r#"{"paths": [{"path": "/", "status": 404}, {"path": "/b", "status": 404}, {"path": "/a", "upstream": {"servers": ["a:80"]}}]}"#,
        "`paths[2].upstream.servers[0]`: \"a:80\" is no URL of a server; write \"http://127.0.0.1:3000\"",
    ),
    (
        r#"{"upstream": 1}"#,
        "`upstream`: invalid type: integer `1`, expected a text in quotes or a table",
    ),
    (
        r#"{"upstream": {}}"#,
        "`upstream.servers`: write 1 to 32 servers",
    ),
    (
        r#"{"upstream": {"servers": ["http://a", "https://b"]}}"#,
        "`upstream.servers[1]`: all servers of an upstream have the same scheme",
    ),
    (
        r#"{"upstream": {"servers": ["http://a", "http://A:80"]}}"#,
        "`upstream.servers[1]`: the server stands twice",
    ),
    (
        r#"{"upstream": {"servers": [{"url": "http://a", "weight": 0}]}}"#,
        "`upstream.servers[0].weight`: 0 is out of range; write 1 to 1000",
    ),
    (
        r#"{"upstream": {"servers": [{"url": "http://a", "wieght": 1}]}}"#,
        "`upstream.servers[0].wieght`: unknown key `wieght`; did you mean `weight`?",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "tls": {}}}"#,
        "`upstream.tls`: only https:// servers have TLS",
    ),
    (
        r#"{"upstream": {"servers": ["https://a"], "tls": {"ca": "x"}}}"#,
        "`upstream.tls.ca`: write the text of PEM certificates",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "protocol": "http2"}}"#,
        "`upstream.protocol`: http:// is HTTP/1.1; write h2c:// servers",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "balance": "random"}}"#,
        "`upstream.balance`: \"random\" is no way to choose; write \"least\"",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "balance": {"cookie": "a b"}}}"#,
        "`upstream.balance.cookie`: \"a b\" is no name of a cookie",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "check": {"path": "/", "interval": "1ms"}}}"#,
        "`upstream.check.interval`: 1ms is out of range; write 1s to 1h",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "check": {"path": "/", "status": "300-200"}}}"#,
        "`upstream.check.status`: \"300-200\" is no status",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "timeouts": {"idle": 60}}}"#,
        "`upstream.timeouts.idle`: invalid type: integer `60`, expected a text",
    ),
    (
        r#"{"upstream": {"servers": ["http://a"], "tenant_field": "X-Tenant"}}"#,
        "`upstream.tenant_field`: the name holds for all sites, and stands in the configuration, \
         as [sites] tenant_field",
    ),
    (
        r#"{"paths": [{"path": "/a", "upstream": {"servers": ["http://a"], "certificate_field": "X-A"}}]}"#,
        "`paths[0].upstream.certificate_field`: the name holds for all sites",
    ),
    (
        r#"{"status": 404, "strip": true}"#,
        "`strip`: the top level has no prefix",
    ),
    (
        r#"{"add": "/a", "paths": [{"path": "/", "status": 404}]}"#,
        "`add`: no path takes it from the top level",
    ),
    (
        r#"{"try": ["/a"], "paths": [{"path": "/", "status": 404}]}"#,
        "`try`: no path takes it from the top level",
    ),
    (
        r#"{"status": 404, "add": "/a"}"#,
        "`add`: only `root` and `upstream` get a path",
    ),
    (
        r#"{"status": 404, "try": ["/a"]}"#,
        "`try`: only a `root` tries paths",
    ),
    (
        r#"{"root": "/a", "try": ["{path}", "index.html"]}"#,
        "`try[1]`: \"index.html\" is no path to try",
    ),
    (r#"{"root": "/a", "try": ["{path}/../b"]}"#, "`try[0]`"),
    (r#"{"root": "/a", "try": ["{path}{path}"]}"#, "`try[0]`"),
    (r#"{"root": "/a", "try": []}"#, "`try`: write 1 to 8 paths"),
    (
        r#"{"root": "/a", "add": "/a/"}"#,
        "`add`: \"/a/\" ends with a slash",
    ),
    (
        r#"{"root": "/a", "errors": "errors"}"#,
        "`errors`: \"errors\" is relative",
    ),
    (
        r#"{"root": "/a", "body_limit": 1}"#,
        "`body_limit`: invalid type",
    ),
    (
        r#"{"root": "/a", "body_limit": "1MB"}"#,
        "`body_limit`: \"1MB\" is no size",
    ),
    (
        r#"{"root": "/a", "body_limit": "2TiB"}"#,
        "`body_limit`: 2TiB is out of range; write 0B to 1TiB",
    ),
    (
        r#"{"root": "/a", "rate": {}}"#,
        "`rate`: write `client` or `host`",
    ),
    (
        r#"{"root": "/a", "rate": {"client": 0}}"#,
        "`rate.client`: 0 is out of range",
    ),
    (
        r#"{"root": "/a", "deny": ["10.0.0.1/8"]}"#,
        "`deny[0]`: \"10.0.0.1/8\" has bits set",
    ),
    (
        r#"{"root": "/a", "allow": ["a.example"]}"#,
        "`allow[0]`: \"a.example\" is no network",
    ),
    (
        r#"{"root": "/a", "hsts": {}}"#,
        "`hsts.max_age`: is missing",
    ),
    (
        r#"{"root": "/a", "hsts": {"max_age": 3600, "preload": true}}"#,
        "`hsts.preload`: browsers' list wants",
    ),
    (
        r#"{"root": "/a", "cache": {"text": "no-store"}}"#,
        "`cache.text`: is no media range",
    ),
    (
        r#"{"root": "/a", "cache": {"text/css": "a", "Text/CSS": "b"}}"#,
        "`cache.Text/CSS`: the media range stands twice",
    ),
    (
        r#"{"root": "/a", "response": {"set": {"X-A": "a\r\nX-B: b"}}}"#,
        "`response.set.X-A`: \"a\\r\\nX-B: b\" is no value of a field",
    ),
    (
        r#"{"root": "/a", "response": {"set": {"a b": "c"}}}"#,
        "`response.set.a b`: \"a b\" is no name",
    ),
    (
        r#"{"root": "/a", "response": {"add": {"X-A": "a", "x-a": "b"}}}"#,
        "`response.add.x-a`: the field stands twice",
    ),
    (
        r#"{"root": "/a", "response": {"remove": ["Content-Length"]}}"#,
        "`response.remove[0]`: content-length is set by the server alone",
    ),
    (
        r#"{"upstream": "http://a", "request": {"set": {"Host": "b"}}}"#,
        "`request.set.Host`: host is set by the server alone",
    ),
    (
        r#"{"paths": [{"path": "/a", "root": "/a", "request": {"set": {"A": "b"}}}]}"#,
        "`paths[0].request`: only `upstream`, `fastcgi` and `cgi` get request fields",
    ),
];
