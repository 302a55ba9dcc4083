//! Compares docs/site.schema.json, docs/sites.md and the keys that are read.

use std::collections::BTreeSet;

use serde_json::Value;

use super::checker::agrees;
use super::site;

const DOCUMENTATION: &str = include_str!("../../../../docs/sites.md");

fn schema() -> Value {
    serde_json::from_str(include_str!("../../../../docs/site.schema.json")).unwrap()
}

/// Objects of a document: their place in the schema, and a document with one
/// that has an unknown key.
const OBJECTS: [(&str, &str); 12] = [
    ("", "@"),
    ("/$defs/path", r#"{"paths": [@]}"#),
    ("/$defs/upstream", r#"{"upstream": @}"#),
    ("/$defs/server", r#"{"upstream": {"servers": [@]}}"#),
    ("/$defs/tls", r#"{"upstream": {"tls": @}}"#),
    ("/$defs/cookie", r#"{"upstream": {"balance": @}}"#),
    ("/$defs/check", r#"{"upstream": {"check": @}}"#),
    ("/$defs/timeouts", r#"{"upstream": {"timeouts": @}}"#),
    ("/$defs/fields", r#"{"request": @}"#),
    ("/$defs/fields", r#"{"response": @}"#),
    ("/$defs/hsts", r#"{"hsts": @}"#),
    ("/$defs/rate", r#"{"rate": @}"#),
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
    for (pointer, document) in OBJECTS {
        let (read, described) = (read_keys(document), properties(&schema, pointer));
        assert_eq!(read, described, "{document} and {pointer}");
    }
    let definitions = schema["$defs"].as_object().unwrap();
    for (name, definition) in definitions {
        let is_compared = OBJECTS
            .iter()
            .any(|(pointer, _)| *pointer == format!("/$defs/{name}"));
        assert!(
            is_compared || definition.get("properties").is_none(),
            "{name}"
        );
    }
}

#[test]
fn the_documentation_has_every_key() {
    let schema = schema();
    for (pointer, _) in OBJECTS {
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
        r#"{"root": "/a", "rate": {}}"#,
        r#"{"root": "/a", "hsts": {}}"#,
        r#"{"root": "/a", "response": {"set": {"A": 1}}}"#,
    ] {
        assert!(site(json).is_err(), "{json}");
        let value = serde_json::from_str(json).unwrap();
        assert!(!agrees(&schema, &schema, &value), "{json}");
    }
    for json in [
        r#"{"root": "/a"}"#,
        r#"{"redirect": "https://a.example", "status": 301}"#,
        r#"{"status": 404, "paths": []}"#,
        r#"{"upstream": {"servers": [{"url": "http://a"}, "http://b"], "check": {"path": "/", "status": 204}}}"#,
    ] {
        site(json).unwrap_or_else(|error| panic!("{json}: {error}"));
        let value = serde_json::from_str(json).unwrap();
        assert!(agrees(&schema, &schema, &value), "{json}");
    }
}
