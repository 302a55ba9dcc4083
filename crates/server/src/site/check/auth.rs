//! Checks `auth`.

use std::sync::Arc;

use http::HeaderValue;

use super::fields::field_value;
use crate::site::auth::{Auth, User};
use crate::site::document::{BoolOr, RawAuth};
use crate::site::error::{Below, Checked, Wrong, at_most, checked};
use crate::site::password::PasswordHash;

/// Checks `auth`; `false` takes the users of the top level off a path.
pub(super) fn auth(raw: &BoolOr<RawAuth>) -> Checked<Option<Arc<Auth>>> {
    let raw = match raw {
        BoolOr::Bool(false) => return Ok(None),
        BoolOr::Bool(true) => return Err(Wrong::new(NO_DEFAULT)),
        BoolOr::Table(raw) => raw,
    };
    let challenge = checked("realm", raw.realm.as_deref(), challenge)?;
    Ok(Some(Arc::new(Auth {
        challenge: challenge.unwrap_or(HeaderValue::from_static(DEFAULT_CHALLENGE)),
        users: users(&raw.users.0).below("users")?,
    })))
}

/// Makes the value of `WWW-Authenticate` (RFC 7617, section 2.1).
fn challenge(realm: &str) -> Checked<HeaderValue> {
    at_most(MAX_REALM, realm.len(), "bytes")?;
    field_value(realm)?;
    let realm = realm.replace('\\', r"\\").replace('"', "\\\"");
    let text = format!("Basic realm=\"{realm}\", charset=\"UTF-8\"");
    HeaderValue::from_str(&text).map_err(|error| Wrong::new(error.to_string()))
}

fn users(raw: &[(String, String)]) -> Checked<Box<[User]>> {
    at_most(MAX_USERS, raw.len(), "users")?;
    if raw.is_empty() {
        let text = "write at least one user and the hash of the password; `false` takes those \
                    of the top level off a path";
        return Err(Wrong::new(text));
    }
    let user = |(name, hash): &(String, String)| {
        check_user(name, hash).below(&name.escape_debug().to_string())
    };
    let mut users = raw.iter().map(user).collect::<Checked<Vec<User>>>()?;
    users.sort_unstable_by(|one, other| one.name.cmp(&other.name));
    match users.windows(2).find(|pair| pair[0].name == pair[1].name) {
        Some(pair) => Err(Wrong::new("the user stands twice")).below(&pair[0].name),
        None => Ok(users.into()),
    }
}

/// Checks the name of a user and the hash of the password.
pub(in crate::site) fn check_user(name: &str, hash: &str) -> Checked<User> {
    if name.is_empty() || name.contains(':') || name.contains(char::is_control) {
        return Err(Wrong::new(
            "the name of a user must not be empty, nor hold a colon or control characters",
        ));
    }
    at_most(MAX_NAME, name.len(), "bytes of a user's name")?;
    Ok(User {
        name: name.into(),
        hash: PasswordHash::parse(hash)?,
    })
}

const NO_DEFAULT: &str = "invalid type: boolean `true`, expected `false` or a table";
const DEFAULT_CHALLENGE: &str = "Basic realm=\"Restricted\", charset=\"UTF-8\"";
/// Users of one rule.
const MAX_USERS: usize = 1000;
/// Bytes of a user's name.
const MAX_NAME: usize = 255;
/// Bytes of a realm.
const MAX_REALM: usize = 256;
