//! Ticket key file in nginx's format, which another program writes and rotates.

use std::io::{self, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use tokio::task::spawn_blocking;
use zeroize::Zeroizing;

use super::ring::{NAME_LEN, SECRET_LEN, Timed};
use crate::error::Error;
use crate::lookup::secret_file;

/// Reads the key of the file, which seals from `from` on.
pub(super) async fn read(path: &Path, from: i64) -> Result<Timed, Error> {
    let file = path.to_owned();
    let read = spawn_blocking(move || read_private(&file)).await;
    let read = read.unwrap_or_else(|_| Err(io::Error::other("reading it panicked")));
    let path = path.display();
    let bytes = read.map_err(|error| {
        Error::Tickets(format!("the ticket key file {path} can't be read: {error}"))
    })?;
    derive(&bytes, from).ok_or_else(|| {
        Error::Tickets(format!(
            "the ticket key file {path} must have 48 or 80 bytes \
             (`umask 077; openssl rand 80 > {path}`)"
        ))
    })
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
fn derive(bytes: &[u8], from: i64) -> Option<Timed> {
    if !LENGTHS.contains(&bytes.len()) {
        return None;
    }
    let (name, keys) = bytes.split_at(NAME_LEN);
    let mut context = Context::new(&SHA256);
    context.update(b"sekisho ticket key 1");
    context.update(keys);
    let secret: [u8; SECRET_LEN] = context.finish().as_ref().try_into().ok()?;
    Some(Timed {
        from,
        name: name.try_into().ok()?,
        secret: Zeroizing::new(secret),
    })
}

/// File sizes of nginx: keys for AES-128 and for AES-256.
const LENGTHS: [usize; 2] = [48, MAX_LEN];
const MAX_LEN: usize = 80;
