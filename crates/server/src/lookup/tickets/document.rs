//! Encoding of the ticket keys as a catalog document: a format byte, then 56
//! bytes per key. These are the start of sealing (big-endian), the name and the
//! secret.

use sekisho_certs::Secret;
use sekisho_certs::store::{DocumentId, DocumentKind};
use zeroize::Zeroizing;

use super::ring::{NAME_LEN, SECRET_LEN, Timed};

/// Kind of the document that holds the keys.
pub const KIND: DocumentKind = DocumentKind::new("ticket-keys");
pub(super) const ID: DocumentId = DocumentId::known(KIND, "ring");

pub(super) fn encode(keys: &[Timed]) -> Secret {
    // The capacity is exact: growing would leave an unwiped copy behind.
    let mut bytes = Vec::with_capacity(1 + keys.len() * ENTRY_LEN);
    bytes.push(FORMAT);
    for key in keys {
        bytes.extend_from_slice(&key.from.to_be_bytes());
        bytes.extend_from_slice(&key.name);
        bytes.extend_from_slice(key.secret.as_ref());
    }
    Secret::new(bytes)
}

/// Returns the keys; None if the format is unknown, the document is truncated,
/// or it has more than [`MAX_KEYS`] keys.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Timed>> {
    let (&format, entries) = bytes.split_first()?;
    let whole = entries.len() % ENTRY_LEN == 0 && entries.len() <= MAX_KEYS * ENTRY_LEN;
    if format != FORMAT || !whole {
        return None;
    }
    entries.chunks_exact(ENTRY_LEN).map(entry).collect()
}

fn entry(bytes: &[u8]) -> Option<Timed> {
    let (from, rest) = bytes.split_at_checked(8)?;
    let (name, secret) = rest.split_at_checked(NAME_LEN)?;
    Some(Timed {
        from: i64::from_be_bytes(from.try_into().ok()?),
        name: name.try_into().ok()?,
        secret: Zeroizing::new(secret.try_into().ok()?),
    })
}

const FORMAT: u8 = 1;
const ENTRY_LEN: usize = 8 + NAME_LEN + SECRET_LEN;

/// Most keys of a document. Three are alive at a time; clocks that differ by
/// hours may add some.
const MAX_KEYS: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_written_is_read_and_nothing_else() {
        let keys = [-7, 0, i64::MAX].map(|from| Timed {
            from,
            name: [from as u8; NAME_LEN],
            secret: Zeroizing::new([!(from as u8); SECRET_LEN]),
        });
        let secret = encode(&keys);
        let bytes = secret.expose();
        assert!(decode(bytes).unwrap() == keys);
        for cut in 0..bytes.len() {
            let got = decode(&bytes[..cut]);
            assert!(got.is_none_or(|some| keys.starts_with(&some)), "{cut}");
        }
        let mut newer = bytes.to_vec();
        newer[0] = 2;
        assert!(decode(&newer).is_none());
        assert!(decode(&[&[FORMAT][..], &[0; 17 * ENTRY_LEN]].concat()).is_none());
    }
}
