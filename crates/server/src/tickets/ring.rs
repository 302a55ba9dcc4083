//! The keys of the moment.

use std::fmt;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::rand;
use zeroize::Zeroizing;

/// The ticket keys of a process, shared by all hosts and workers and swapped
/// as a whole.
#[derive(Debug)]
pub struct Ring(ArcSwap<Keys>);

#[derive(Debug)]
struct Keys {
    /// The one that seals.
    sealing: usize,
    all: Vec<Key>,
}

impl Ring {
    /// A single key that only this process knows, until others are installed.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    #[must_use]
    pub fn random() -> Self {
        Self(ArcSwap::from_pointee(Keys {
            sealing: 0,
            all: vec![Key::random()],
        }))
    }

    /// Puts other keys in; all of them open, the one at `sealing` seals. An
    /// empty list changes nothing.
    pub fn install(&self, all: Vec<Key>, sealing: usize) {
        if sealing < all.len() {
            self.0.store(Keys { sealing, all }.into());
        }
    }

    /// A ticket: the key's name, the nonce, ciphertext and tag.
    pub(crate) fn seal(&self, binding: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.0.load();
        let key = &keys.all[keys.sealing];
        // Random nonces: 2^32 tickets under one key may be made before two
        // are alike with a chance of 2^-33; a key lives for some hours.
        let mut head = [0; HEAD_LEN];
        rand::fill(&mut head[NAME_LEN..]).ok()?;
        head[..NAME_LEN].copy_from_slice(&key.name);
        let mut ticket = Vec::with_capacity(HEAD_LEN + plain.len() + TAG_LEN);
        ticket.extend_from_slice(&head);
        ticket.extend_from_slice(plain);
        let nonce = Nonce::try_assume_unique_for_key(&head[NAME_LEN..]).ok()?;
        let tag = key
            .aead
            .seal_in_place_separate_tag(nonce, Aad::from(binding), &mut ticket[HEAD_LEN..])
            .ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    pub(crate) fn open(&self, binding: &[u8], ticket: &[u8]) -> Option<Vec<u8>> {
        let (name, rest) = ticket.split_at_checked(NAME_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let keys = self.0.load();
        let key = keys.all.iter().find(|key| key.name == name)?;
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let len = key
            .aead
            .open_in_place(nonce, Aad::from(binding), &mut plain)
            .ok()?
            .len();
        plain.truncate(len);
        Some(plain)
    }
}

/// A ticket key, expanded for use.
pub struct Key {
    name: [u8; NAME_LEN],
    aead: LessSafeKey,
}

impl Key {
    /// From its public name and its secret. `secret` is the caller's to wipe.
    ///
    /// # Panics
    /// Never: AES-256 takes any 32 bytes.
    #[must_use]
    pub fn new(name: [u8; NAME_LEN], secret: &[u8; SECRET_LEN]) -> Self {
        let key = UnboundKey::new(&AES_256_GCM, secret).expect("AES-256 takes any 32 bytes");
        Self {
            name,
            aead: LessSafeKey::new(key),
        }
    }

    fn random() -> Self {
        let mut name = [0; NAME_LEN];
        let mut secret = Zeroizing::new([0; SECRET_LEN]);
        rand::fill(&mut name).expect("the system gives random bytes");
        rand::fill(secret.as_mut()).expect("the system gives random bytes");
        Self::new(name, &secret)
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// As in nginx's files: 16 bytes tell keys apart.
pub(super) const NAME_LEN: usize = 16;
pub(super) const SECRET_LEN: usize = 32;
const HEAD_LEN: usize = NAME_LEN + NONCE_LEN;
const TAG_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Key {
        Key::new([number; NAME_LEN], &[number; SECRET_LEN])
    }

    #[test]
    fn other_servers_open_tickets_and_old_ones_too() {
        let (one, other) = (Ring::random(), Ring::random());
        one.install(vec![key(1), key(2)], 1);
        let ticket = one.seal(b"host", b"session").unwrap();
        assert_eq!(other.open(b"host", &ticket), None);
        other.install(vec![key(2), key(3)], 1);
        assert_eq!(other.open(b"host", &ticket).unwrap(), b"session");
        other.install(vec![key(3)], 0);
        assert_eq!(other.open(b"host", &ticket), None);
    }

    #[test]
    fn no_list_leaves_the_ring_without_a_key() {
        let ring = Ring::random();
        let ticket = ring.seal(b"", b"session").unwrap();
        ring.install(Vec::new(), 0);
        ring.install(vec![key(1)], 1);
        assert!(ring.open(b"", &ticket).is_some());
    }

    #[test]
    fn what_is_no_ticket_opens_nothing() {
        let ring = Ring::random();
        let ticket = ring.seal(b"host", b"session").unwrap();
        for cut in 0..ticket.len() {
            assert_eq!(ring.open(b"host", &ticket[..cut]), None);
            let mut wrong = ticket.clone();
            wrong[cut] ^= 1;
            assert_eq!(ring.open(b"host", &wrong), None);
        }
        assert!(ring.open(b"host", &ticket).is_some());
    }
}
