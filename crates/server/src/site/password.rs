//! Hashes of passwords, as htpasswd, PHP and `/etc/shadow` write them.

mod argon2id;
mod crypt;

use std::fmt;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest;
use data_encoding::BASE64;

use super::error::{Checked, Wrong};
use super::value::number;
use argon2id::Argon2id;
use crypt::{Crypt, Sum};

/// Hash of a password, whose kind and cost are within bounds.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct PasswordHash(Box<str>);

impl PasswordHash {
    /// Takes the text of a hash.
    ///
    /// # Errors
    /// If the kind is not known or not safe, or if a password would cost too much time
    /// or memory. The error does not repeat the text.
    pub(crate) fn parse(text: &str) -> Checked<Self> {
        Kind::parse(text)?;
        Ok(Self(text.into()))
    }

    /// Returns the text.
    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether a verification takes much memory, up to [`argon2id::MAX_MEMORY`].
    pub(crate) fn needs_memory(&self) -> bool {
        self.0.starts_with(ARGON2ID)
    }

    /// Returns whether the hash is that of a password. Blocks for up to some seconds.
    pub(crate) fn verify(&self, password: &[u8]) -> bool {
        Kind::parse(&self.0).is_ok_and(|kind| kind.verify(password))
    }
}

/// Returns whether a text is the hash of a password.
#[cfg(fuzzing)]
#[must_use]
pub fn verify_password(hash: &str, password: &[u8]) -> bool {
    PasswordHash::parse(hash).is_ok_and(|hash| hash.verify(password))
}

/// Leaves out the hash.
impl fmt::Debug for PasswordHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PasswordHash")
    }
}

/// Parts of a hash by its kind.
enum Kind<'a> {
    Bcrypt(&'a str),
    Argon2id(Argon2id),
    Crypt(Crypt<'a>),
    /// SHA-1 without a salt.
    Sha1(Vec<u8>),
}

impl<'a> Kind<'a> {
    fn parse(text: &'a str) -> Checked<Self> {
        if let Some(rest) = text.strip_prefix("{SHA}") {
            return sha1(rest);
        }
        let crypt = |rest, sum| Crypt::parse(rest, sum).map(Kind::Crypt);
        let parts = text.strip_prefix('$').and_then(|rest| rest.split_once('$'));
        match parts {
            Some(("2a" | "2b" | "2y", _)) => bcrypt(text),
            Some(("2x", _)) => Err(refused("`$2x$` is bcrypt with a known flaw")),
            Some(("argon2id", rest)) => Argon2id::parse(rest).map(Kind::Argon2id),
            Some(("argon2i" | "argon2d", _)) => Err(refused("of Argon2 only argon2id is taken")),
            Some(("apr1", rest)) => crypt(rest, Sum::Md5),
            Some(("5", rest)) => crypt(rest, Sum::Sha256),
            Some(("6", rest)) => crypt(rest, Sum::Sha512),
            _ if text.starts_with(['$', '{', '_']) => {
                Err(refused("this kind of hash is not taken"))
            }
            _ if is_des(text) => Err(refused("DES crypt and plain text are not taken")),
            _ => Err(refused("plain text is not taken")),
        }
    }

    fn verify(&self, password: &[u8]) -> bool {
        match self {
            // The crate compares in constant time.
            Self::Bcrypt(text) => bcrypt::verify(password, text).unwrap_or_default(),
            Self::Argon2id(argon2id) => argon2id.verify(password),
            Self::Crypt(crypt) => crypt.verify(password),
            Self::Sha1(expected) => {
                let found = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, password);
                verify_slices_are_equal(found.as_ref(), expected).is_ok()
            }
        }
    }
}

fn bcrypt(text: &str) -> Checked<Kind<'_>> {
    let cost = text.get(4..6).and_then(number);
    let cost = cost.filter(|_| text.parse::<bcrypt::HashParts>().is_ok());
    match cost.ok_or_else(malformed)? {
        4..=MAX_BCRYPT => Ok(Kind::Bcrypt(text)),
        cost => Err(refused(&format!(
            "the bcrypt cost {cost} is out of range, 4 to {MAX_BCRYPT}"
        ))),
    }
}

fn sha1(text: &str) -> Checked<Kind<'_>> {
    let bytes = BASE64.decode(text.as_bytes()).unwrap_or_default();
    match bytes.len() == digest::SHA1_OUTPUT_LEN {
        true => Ok(Kind::Sha1(bytes)),
        false => Err(malformed()),
    }
}

/// Returns whether a text may be of DES crypt: 13 characters of its alphabet.
fn is_des(text: &str) -> bool {
    text.len() == 13 && text.bytes().all(crypt::is_of_alphabet)
}

fn malformed() -> Wrong {
    refused("the hash is cut or malformed")
}

fn refused(why: &str) -> Wrong {
    Wrong::new(format!(
        "{why}; write a hash that `htpasswd -nB USER` prints"
    ))
}

const ARGON2ID: &str = "$argon2id$";
/// Caddy's default; takes some 1.2 s.
const MAX_BCRYPT: u32 = 14;

#[cfg(test)]
mod tests;
