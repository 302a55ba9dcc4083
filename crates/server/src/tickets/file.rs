//! A key file that somebody else writes, in nginx's format.

use std::path::PathBuf;

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::ring::{Key, NAME_LEN, SECRET_LEN};
use crate::Error;

/// The file, and what it held when it was last read.
pub(super) struct KeyFile {
    path: PathBuf,
    /// The derived secrets with their names: the present one, and the one
    /// before it, which still opens.
    present: Option<Derived>,
    previous: Option<Derived>,
}

struct Derived {
    name: [u8; NAME_LEN],
    secret: Zeroizing<[u8; SECRET_LEN]>,
}

impl KeyFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self {
            path,
            present: None,
            previous: None,
        }
    }

    /// The keys, the one that seals in front; none if nothing changed.
    pub(super) async fn read(&mut self) -> Result<Option<Vec<Key>>, Error> {
        let read = tokio::fs::read(&self.path).await.map(Zeroizing::new);
        let path = self.path.display();
        let bytes = read.map_err(|error| {
            Error::Tickets(format!("the ticket key file {path} can't be read: {error}"))
        })?;
        let derived = derive(&bytes).ok_or_else(|| {
            Error::Tickets(format!(
                "the ticket key file {path} has {} bytes, it must have 48 or 80 \
                 (`openssl rand 80 > {path}`)",
                bytes.len()
            ))
        })?;
        if self.present.as_ref().is_some_and(|now| now.is(&derived)) {
            return Ok(None);
        }
        self.previous = self.present.replace(derived);
        let keys = [&self.present, &self.previous];
        Ok(Some(keys.into_iter().flatten().map(Derived::key).collect()))
    }
}

impl Derived {
    fn is(&self, other: &Self) -> bool {
        self.name == other.name && self.secret == other.secret
    }

    fn key(&self) -> Key {
        Key::new(self.name, &self.secret)
    }
}

impl std::fmt::Debug for KeyFile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "KeyFile({})", self.path.display())
    }
}

/// nginx's first 16 bytes are the name. The rest are keys of other ciphers
/// than ours: one is derived from them.
fn derive(bytes: &[u8]) -> Option<Derived> {
    if !LENGTHS.contains(&bytes.len()) {
        return None;
    }
    let (name, keys) = bytes.split_at(NAME_LEN);
    let mut context = Context::new(&SHA256);
    context.update(b"sekisho ticket key 1");
    context.update(keys);
    let secret: [u8; SECRET_LEN] = context.finish().as_ref().try_into().ok()?;
    Some(Derived {
        name: name.try_into().ok()?,
        secret: Zeroizing::new(secret),
    })
}

/// For AES-128 and for AES-256.
const LENGTHS: [usize; 2] = [48, 80];
