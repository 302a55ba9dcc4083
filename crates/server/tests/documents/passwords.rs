//! Tests what is refused of `auth`, and that no error repeats a hash.

use sekisho_certs::{Site as StoredSite, Tenant};
use sekisho_server::site::{Site, SiteDocument};
use serde_json::json;

use super::site;

#[test]
fn an_error_names_the_user() {
    for (json, expected) in ERRORS {
        let error = site(json).expect_err(json).to_string();
        assert!(error.contains(expected), "{json}\n{error}");
        assert!(!error.contains(['\n', '{']), "{error}");
    }
}

#[test]
fn a_document_with_users_has_format_3() {
    for json in [
        r#"{"status": 404, "auth": {"users": {"a": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#,
        r#"{"root": "/srv", "paths": [{"path": "/a", "status": 404, "auth": false}]}"#,
    ] {
        let document = SiteDocument::parse(json).unwrap();
        assert_eq!(document.stored().format, 3);
        let json = json.into();
        let stored = StoredSite { format: 2, json };
        let error = Site::parse(&stored, &Tenant::default()).unwrap_err();
        let expected = "`auth`: format 2 has no such key";
        assert!(error.to_string().contains(expected), "{error}");
    }
}

#[test]
fn users_are_bounded() {
    let users = |count: usize| {
        let hash = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=";
        let users = (0..count).map(|user| (user.to_string(), hash.into()));
        let users: serde_json::Map<_, _> = users.collect();
        json!({ "status": 404, "auth": { "users": users } }).to_string()
    };
    site(&users(1000)).unwrap();
    let error = site(&users(1001)).unwrap_err().to_string();
    assert!(
        error.contains("`auth.users`: 1001 users are more than 1000"),
        "{error}"
    );
}

#[test]
fn an_error_repeats_no_hash() {
    for document in [
        r#"{"status": 404, "auth": "$2y$10$hush"}"#,
        r#"{"status": 404, "auth": {"users": "ann:$2y$10$hush"}}"#,
        r#"{"status": 404, "auth": {"users": ["ann:$2y$10$hush"]}}"#,
        r#"{"status": 404, "auth": {"users": {"ann": "$2y$10$hush"}}}"#,
        r#"{"status": 404, "auth": {"users": {"ann": ["$2y$10$hush"]}}}"#,
        r#"{"status": 404, "auth": {"users": {"ann": {"hash": "$2y$10$hush"}}}}"#,
        r#"{"status": 404, "auth": {"users": {"ann": "hush"}}}"#,
        r#"{"status": 404, "auth": {"ann": "$2y$10$hush"}}"#,
    ] {
        let error = site(document).expect_err(document).to_string();
        assert!(error.contains("`auth"), "{error}");
        assert!(!error.contains("hush"), "{error}");
    }
}

/// Documents, and what their errors say.
const ERRORS: &[(&str, &str)] = &[
    (
        r#"{"status": 404, "auth": true}"#,
        "`auth`: invalid type: boolean `true`, expected `false` or a table",
    ),
    (
        r#"{"status": 404, "auth": {}}"#,
        "`auth.users`: write at least one user",
    ),
    (
        r#"{"status": 404, "auth": {"user": {}}}"#,
        "unknown key `user`; did you mean `users`?",
    ),
    (
        r#"{"status": 404, "auth": {"users": {"ann": "secret"}}}"#,
        "`auth.users.ann`: plain text is not taken; write a hash that `htpasswd -nB USER` prints",
    ),
    (
        r#"{"paths": [{"path": "/a", "status": 404, "auth": {"users": {"ann": "rOioh4Wh3Qw7."}}}]}"#,
        "`paths[0].auth.users.ann`: DES crypt and plain text are not taken",
    ),
    (
        r#"{"status": 404, "auth": {"users": {"a": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "a": "{SHA}EfatjsUqKYSrqv18O1FlA3hcIHI="}}}"#,
        "`auth.users.a`: the user stands twice",
    ),
    (
        r#"{"status": 404, "auth": {"users": {"a:b": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#,
        "`auth.users.a:b`: the name of a user must not be empty, nor hold a colon",
    ),
    (
        r#"{"status": 404, "auth": {"users": {"a\n": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#,
        "`auth.users.a\\n`: the name of a user",
    ),
    (
        r#"{"status": 404, "auth": {"realm": "a\nb", "users": {"a": "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="}}}"#,
        "`auth.realm`: \"a\\nb\" is no value of a field",
    ),
];
