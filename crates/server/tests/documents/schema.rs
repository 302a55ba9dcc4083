//! Compares docs/site.schema.json, docs/sites.md and the keys that are read.

use std::collections::BTreeSet;

use sekisho_testkit::TestCa;
use serde_json::Value;

use super::checker::agrees;
use super::site;

const DOCUMENTATION: &str = include_str!("../../../../docs/sites.md");

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/site.schema.json")).unwrap()
}

/// Objects of a document: their place in the schema and in a document, and a document
/// with one that has an unknown key.
const OBJECTS: [(&str, &str, &str); 17] = [
    ("", "", "@"),
    ("/$defs/path", "/paths/0", r#"{"paths": [@]}"#),
    ("/$defs/upstream", "/upstream", r#"{"upstream": @}"#),
    (
        "/$defs/server",
        "/upstream/servers/0",
        r#"{"upstream": {"servers": [@]}}"#,
    ),
    ("/$defs/tls", "/upstream/tls", r#"{"upstream": {"tls": @}}"#),
    (
        "/$defs/cookie",
        "/upstream/balance",
        r#"{"upstream": {"balance": @}}"#,
    ),
    (
        "/$defs/check",
        "/upstream/check",
        r#"{"upstream": {"check": @}}"#,
    ),
    (
        "/$defs/timeouts",
        "/upstream/timeouts",
        r#"{"upstream": {"timeouts": @}}"#,
    ),
    (
        "/$defs/fastcgi",
        "/fastcgi",
        r#"{"root": "/a", "fastcgi": @}"#,
    ),
    (
        "/$defs/fastcgi_server",
        "/fastcgi/servers/0",
        r#"{"root": "/a", "fastcgi": {"servers": [@]}}"#,
    ),
    (
        "/$defs/fastcgi_timeouts",
        "/fastcgi/timeouts",
        r#"{"root": "/a", "fastcgi": {"timeouts": @}}"#,
    ),
    ("/$defs/fields", "/request", r#"{"request": @}"#),
    ("/$defs/fields", "/response", r#"{"response": @}"#),
    ("/$defs/hsts", "/hsts", r#"{"hsts": @}"#),
    ("/$defs/compress", "/compress", r#"{"compress": @}"#),
    ("/$defs/rate", "/rate", r#"{"rate": @}"#),
    ("/$defs/auth", "/auth", r#"{"auth": @}"#),
];

/// Keys that are read in an object only for an error that says more.
const READ_AND_REFUSED: &[(&str, &str)] = &[
    ("", "strip"),
    ("", "path"),
    ("", "methods"),
    ("/$defs/path", "paths"),
    ("/$defs/path", "redirects"),
    ("/$defs/path", "http"),
    ("/$defs/path", "as"),
    ("/$defs/upstream", "tenant_field"),
    ("/$defs/upstream", "certificate_field"),
    ("/$defs/fastcgi_timeouts", "upgraded"),
];

/// Returns the keys that are read in an object, as the error of an unknown one
/// lists them.
fn read_keys(document: &str) -> BTreeSet<String> {
    let document = document.replace('@', r#"{"qqqqqqqqqqqqqq": 1}"#);
    let error = site(&document).unwrap_err().to_string();
    match error.split_once("known here: ") {
        Some((_, known)) => known.split(", ").map(str::to_owned).collect(),
        // serde names a single known key in a suggestion alone.
        None => panic!("{document}: {error}"),
    }
}

fn properties(schema: &Value, pointer: &str) -> BTreeSet<String> {
    let object = schema.pointer(pointer).expect(pointer);
    assert_eq!(object["additionalProperties"], false, "{pointer}");
    let properties = object["properties"].as_object().unwrap();
    properties.keys().cloned().collect()
}

#[test]
fn the_schema_has_the_keys_that_are_read() {
    let schema = schema();
    for (pointer, _, document) in OBJECTS {
        let (mut read, described) = (read_keys(document), properties(&schema, pointer));
        read.retain(|key| !READ_AND_REFUSED.contains(&(pointer, key)));
        assert_eq!(read, described, "{document} and {pointer}");
    }
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, definition) in definitions {
        let is_compared = OBJECTS
            .iter()
            .any(|(pointer, ..)| *pointer == format!("/$defs/{name}"));
        assert!(
            is_compared || definition.get("properties").is_none(),
            "{name}"
        );
    }
}

/// A key that every document is refused with has no place in the schema.
#[test]
fn each_key_of_the_schema_stands_in_a_document_that_is_read() {
    let schema = schema();
    let pem = serde_json::to_string(&TestCa::new().root_pem()).unwrap();
    let documents: Vec<Value> = EVERY_KEY
        .iter()
        .map(|json| {
            let json = json.replace("PEM", &pem);
            site(&json).unwrap_or_else(|error| panic!("{json}: {error}"));
            let value = serde_json::from_str(&json).unwrap();
            assert!(agrees(&schema, &schema, &value), "{json}");
            value
        })
        .collect();
    for (pointer, place, _) in OBJECTS {
        let objects = documents.iter().filter_map(|value| value.pointer(place));
        let objects = objects.filter_map(Value::as_object);
        let used: BTreeSet<String> = objects.flat_map(|object| object.keys().cloned()).collect();
        assert_eq!(properties(&schema, pointer), used, "{pointer} and {place}");
    }
}

const EVERY_KEY: &[&str] = &[
    r#"{"root": "/a", "add": "/b", "try": ["{path}"], "errors": "/e", "body_limit": "1MiB",
        "response": {"set": {"A": "b"}, "add": {"C": "d"}, "remove": ["Server"]},
        "hsts": {"max_age": 31536000, "subdomains": true, "preload": true},
        "cache": {"*/*": "no-cache"}, "index": ["a.html"], "precompressed": ["br", "zstd", "gzip"],
        "compress": {"types": ["text/*"], "level": 9, "upstream": true, "cookies": true},
        "upstream_errors": true, "in_flight": 7, "client_certificate": true,
        "rate": {"client": 1, "burst": 2, "host": 2},
        "redirects": {"/a": "/b", "/c": "https://b.example"},
        "http": "serve", "allow": ["10.0.0.0/8"], "deny": ["10.0.0.1"],
        "auth": {"realm": "a", "users": {"b": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#,
    r#"{"as": "b.example", "http": "until-certificate"}"#,
    r#"{"root": "/a", "cgi": true}"#,
    r#"{"root": "/a", "fastcgi": {"servers": [{"url": "unix:/run/{tenant}.sock", "weight": 2}],
        "scripts": [".php"], "keep": 2, "balance": "client", "connections": 5, "waiting": 9,
        "timeouts": {"connect": "1s", "first_byte": "1s", "idle": "1s"}}}"#,
    r#"{"redirect": "https://a.example", "status": 301}"#,
    r#"{"status": 503, "text": "x"}"#,
    r#"{"request": {"set": {"A": "b"}, "add": {"C": "d"}, "remove": ["E"]},
        "upstream": {"servers": [{"url": "https://a", "weight": 2}], "protocol": "auto",
        "tls": {"name": "a.example", "ca": PEM, "certificate_of": "b.example"},
        "host": "c.example", "balance": {"cookie": "c"},
        "check": {"path": "/", "interval": "5s", "timeout": "1s", "status": 204},
        "timeouts": {"connect": "1s", "first_byte": "1s", "idle": "1s", "upgraded": "1s"},
        "proxy_protocol": "v1", "forwarded": true, "underscores": true,
        "connections": 1, "waiting": 0}}"#,
    r#"{"paths": [{"path": "/a", "root": "/a", "fastcgi": "fastcgi://a", "cgi": false, "strip": true, "add": "/b", "try": ["{path}"],
        "errors": "/e", "body_limit": "1MiB", "response": {}, "hsts": {"max_age": 0},
        "cache": {}, "rate": {"host": 1}, "allow": [], "deny": [], "methods": ["GET"],
        "index": ["a"], "precompressed": [], "compress": false, "upstream_errors": false,
        "in_flight": 1, "client_certificate": false, "auth": false}]}"#,
    r#"{"paths": [{"path": "/a", "upstream": "http://a", "request": {}}]}"#,
    r#"{"paths": [{"path": "/a", "redirect": "https://a.example"}]}"#,
    r#"{"paths": [{"path": "/a", "status": 503, "text": "x"}]}"#,
];

#[test]
fn the_documentation_has_every_key() {
    let schema = schema();
    for (pointer, ..) in OBJECTS {
        for key in properties(&schema, pointer) {
            assert!(
                DOCUMENTATION.contains(&format!("`{key}`")),
                "{pointer}: {key}"
            );
        }
    }
    for pointer in ["", "/$defs/path", "/$defs/upstream"] {
        for key in properties(&schema, pointer) {
            assert!(
                DOCUMENTATION.contains(&format!("\n| `{key}` |")),
                "{pointer}: {key}"
            );
        }
    }
}

#[test]
fn the_examples_are_read_and_agree_with_the_schema() {
    let schema = schema();
    let examples: Vec<_> = DOCUMENTATION.split("```json\n").skip(1).collect();
    assert!(examples.len() >= 5);
    for example in examples {
        let example = example.split("```").next().unwrap();
        site(example).unwrap_or_else(|error| panic!("{example}: {error}"));
        let value = serde_json::from_str(example).unwrap();
        assert!(agrees(&schema, &schema, &value), "{example}");
    }
}

#[test]
fn document_and_schema_refuse_the_same() {
    let schema = schema();
    for json in [
        "{}",
        "[]",
        r#"{"paths": []}"#,
        r#"{"status": "404"}"#,
        r#"{"status": 404, "root": "/a"}"#,
        r#"{"root": "/a", "redirect": "https://a.example"}"#,
        r#"{"paths": [{"path": "/a"}]}"#,
        r#"{"paths": [{"status": 404}]}"#,
        r#"{"status": 404, "qqqqqqqqqq": 1}"#,
        r#"{"upstream": {}}"#,
        r#"{"upstream": {"servers": []}}"#,
        r#"{"upstream": {"servers": [{"url": "http://a", "weight": 1001}]}}"#,
        r#"{"upstream": {"servers": ["http://a"], "balance": "random"}}"#,
        r#"{"upstream": {"servers": ["http://a"], "connections": 0}}"#,
        r#"{"upstream": {"servers": ["http://a"], "check": {}}}"#,
        r#"{"root": "/a", "try": []}"#,
        r#"{"root": "/a", "strip": true}"#,
        r#"{"root": "/a", "rate": {}}"#,
        r#"{"root": "/a", "hsts": {}}"#,
        r#"{"root": "/a", "response": {"set": {"A": 1}}}"#,
        r#"{"as": "b.example", "root": "/a"}"#,
        r#"{"as": "b.example", "hsts": {"max_age": 0}}"#,
        r#"{"redirects": {}}"#,
        r#"{"redirects": {"/a": 301}}"#,
        r#"{"root": "/a", "http": "on"}"#,
        r#"{"root": "/a", "methods": ["GET"]}"#,
        r#"{"paths": [{"path": "/a", "status": 404, "methods": []}]}"#,
        r#"{"paths": [{"path": "/a", "status": 404, "as": "b.example"}]}"#,
        r#"{"root": "/a", "index": []}"#,
        r#"{"root": "/a", "precompressed": ["deflate"]}"#,
        r#"{"root": "/a", "compress": {"level": 10}}"#,
        r#"{"root": "/a", "in_flight": 0}"#,
        r#"{"root": "/a", "rate": {"burst": 1}}"#,
        r#"{"root": "/a", "rate": {"host": 1, "burst": 1}}"#,
        r#"{"root": "/a", "auth": true}"#,
        r#"{"root": "/a", "auth": {}}"#,
        r#"{"root": "/a", "auth": {"users": {}}}"#,
        r#"{"root": "/a", "auth": {"users": {"a": 1}}}"#,
    ] {
        assert!(site(json).is_err(), "{json}");
        let value = serde_json::from_str(json).unwrap();
        assert!(!agrees(&schema, &schema, &value), "{json}");
    }
    for json in [
        r#"{"root": "/a"}"#,
        r#"{"redirect": "https://a.example", "status": 301}"#,
        r#"{"status": 404, "paths": []}"#,
        r#"{"as": "b.example"}"#,
        r#"{"redirects": {"/a": "/b"}}"#,
        r#"{"redirects": {"/a": "/b"}, "root": "/a"}"#,
        r#"{"root": "/a", "compress": true}"#,
        r#"{"root": "/a", "rate": {"client": 1, "burst": 2, "host": 1}}"#,
        r#"{"upstream": {"servers": [{"url": "http://a"}, "http://b"], "check": {"path": "/", "status": 204}}}"#,
    ] {
        site(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let value = serde_json::from_str(json).unwrap();
        assert!(agrees(&schema, &schema, &value), "{json}");
    }
}
