//! Hashes of passwords on the command line: files of htpasswd, and digests that stand for
//! hashes where they are shown.

use std::path::Path;

use anyhow::{anyhow, bail};
use aws_lc_rs::digest;
use data_encoding::HEXLOWER;
use sekisho_server::site::login;
use serde_json::{Map, Value, json};

use crate::terminal::failure::Result;

/// Reads the text of a file of htpasswd, and returns the key `auth` of a site.
pub(super) fn auth_of(file: &Path, text: &str) -> Result<Value> {
    let mut users = Map::new();
    for (index, line) in text.lines().enumerate() {
        let place = || format!("{}, line {}", file.display(), index + 1);
        let found = login(line).map_err(|wrong| anyhow!("{}: {wrong}", place()))?;
        let Some((user, hash)) = found else { continue };
        let before = users.insert(user.to_owned(), hash.into());
        if before.is_some() {
            bail!("{}: the user {user} stands twice", place());
        }
    }
    if users.is_empty() {
        bail!(
            "{} has no user; write lines user:hash, as htpasswd does",
            file.display()
        );
    }
    Ok(json!({ "users": users }))
}

/// Puts digests in the place of all hashes of a document.
pub(super) fn hide(document: &mut Value) {
    for (_, hash) in hashes(document) {
        *hash = digest_of(hash);
    }
}

/// Returns whether a document may have digests.
pub(super) fn has_digests(json: &str) -> bool {
    json.contains(DIGEST)
}

/// Returns a document in which a hash of nothing takes the place of each digest, by which
/// all else of it can be checked before the host's own hashes are known.
pub(super) fn without_digests(json: &str) -> String {
    let mut parts = json.split('"').map(|part| match is_digest(part) {
        true => OF_NOTHING,
        false => part,
    });
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |json, part| json + "\"" + part)
}

/// Puts the hashes of the site that a host has in the place of their digests.
///
/// # Errors
/// If a digest is of none of them.
pub(super) fn restore(document: &mut Value, present: Option<Value>) -> Result<()> {
    let mut present = present.unwrap_or_default();
    let known: Vec<String> = hashes(&mut present).map(|(_, hash)| hash.clone()).collect();
    for (key, hash) in hashes(document).filter(|(_, hash)| is_digest(hash)) {
        let found = known.iter().find(|known| digest_of(known) == *hash);
        let Some(found) = found else {
            bail!("`{key}`: no password of the host has this digest; write the hash itself");
        };
        hash.clone_from(found);
    }
    Ok(())
}

/// Returns the hashes of a document, each with the path of its keys.
fn hashes(document: &mut Value) -> impl Iterator<Item = (String, &mut String)> {
    let object = document.as_object_mut();
    let keys = object.into_iter().flat_map(|keys| keys.iter_mut());
    keys.flat_map(|(key, value)| match (key.as_str(), value) {
        ("auth", auth) => vec![(key.clone(), auth)],
        ("paths", Value::Array(paths)) => {
            let paths = paths.iter_mut().enumerate();
            let auth = paths.filter_map(|(index, path)| Some((index, path.get_mut("auth")?)));
            auth.map(|(index, auth)| (format!("paths[{index}].auth"), auth))
                .collect()
        }
        _ => Vec::new(),
    })
    .flat_map(|(key, auth)| {
        let users = auth.get_mut("users").and_then(Value::as_object_mut);
        let users = users.into_iter().flat_map(|users| users.iter_mut());
        users.filter_map(move |(user, hash)| match hash {
            Value::String(hash) => Some((format!("{key}.users.{user}"), hash)),
            _ => None,
        })
    })
}

fn digest_of(hash: &str) -> String {
    let digest = digest::digest(&digest::SHA256, hash.as_bytes());
    DIGEST.to_owned() + &HEXLOWER.encode(digest.as_ref())
}

fn is_digest(text: &str) -> bool {
    let digest = text.strip_prefix(DIGEST);
    digest.is_some_and(|text| {
        text.len() == 2 * digest::SHA256_OUTPUT_LEN && text.bytes().all(|b| b.is_ascii_hexdigit())
    })
}

/// Begin of a digest; no hash of a password begins so.
const DIGEST: &str = "sha256:";
/// SHA-1 of no known text.
const OF_NOTHING: &str = "{SHA}AAAAAAAAAAAAAAAAAAAAAAAAAAA=";
