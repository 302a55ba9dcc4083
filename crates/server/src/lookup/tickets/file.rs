//! Ticket key file in nginx's format, which another program writes and rotates.

use std::io::{self, Read};
use std::path::{Path, PathBuf};

use aws_lc_rs::digest::{Context, SHA256};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::ring::{Key, NAME_LEN, SECRET_LEN};
use crate::error::Error;
use crate::lookup::secret_file;

/// Key file, and its keys when it was last read.
pub(super) struct KeyFile {
    path: PathBuf,
    /// The current key, which seals.
    present: Option<Derived>,
    /// The key before it, which still opens tickets.
    previous: Option<Derived>,
}

/// Secret derived from a file, with its name.
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

    /// Reads the file. Returns the sealing key first, then the previous one.
    pub(super) async fn read(&mut self) -> Result<Vec<Key>, Error> {
        let path = self.path.clone();
        let read = spawn_blocking(move || read_private(&path)).await;
        let read = read.unwrap_or_else(|_| Err(io::Error::other("reading it panicked")));
        let path = self.path.display();
        let bytes = read.map_err(|error| {
            Error::Tickets(format!("the ticket key file {path} can't be read: {error}"))
        })?;
        let derived = derive(&bytes).ok_or_else(|| {
            Error::Tickets(format!(
                "the ticket key file {path} must have 48 or 80 bytes \
                 (`umask 077; openssl rand 80 > {path}`)"
            ))
        })?;
        if !self.present.as_ref().is_some_and(|now| now.is(&derived)) {
            self.previous = self.present.replace(derived);
        }
        let keys = [&self.present, &self.previous];
        Ok(keys.into_iter().flatten().map(Derived::key).collect())
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

/// Reads the file if only its owner has access: these keys decrypt recorded TLS
/// 1.2 sessions.
fn read_private(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    // One byte more detects a file that is too long.
    let mut bytes = Zeroizing::new(Vec::with_capacity(MAX_LEN + 1));
    secret_file::open(path)?
        .take(MAX_LEN as u64 + 1)
        .read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Derives a key from nginx's bytes. The first 16 are the name. The rest are
/// keys of other ciphers, from which the secret is derived.
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

/// File sizes of nginx: keys for AES-128 and for AES-256.
const LENGTHS: [usize; 2] = [48, MAX_LEN];
const MAX_LEN: usize = 80;
