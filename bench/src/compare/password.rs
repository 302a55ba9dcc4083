//! Password of the row in which clients send one.

use std::path::Path;

/// Field with name and password.
pub(crate) const FIELD: &str = "Authorization: Basic YmVuY2g6YSBwYXNzd29yZCB0byBtZWFzdXJlIHdpdGg=";

/// Makes the site of files behind the password. Its hash takes some 50 ms, once a minute.
pub(crate) fn site(root: &Path) -> serde_json::Value {
    serde_json::json!({ "root": root, "auth": { "users": { USER: BCRYPT } } })
}

/// Makes nginx's file of users. nginx computes the hash in each request: this one is cheap.
pub(crate) fn users() -> String {
    format!("{USER}:{{SHA}}{SHA1}\n")
}

const USER: &str = "bench";
/// Hashes of the password, of which that of bcrypt has cost 10.
const BCRYPT: &str = "$2b$10$ryY8zaydqBed0tAqc6F5F.vUOWZslnsm7IjgZmPjEUShRBv4PEZ2e";
const SHA1: &str = "Va7l/sgtJv72SDMJDuvwN1UrhWg=";
