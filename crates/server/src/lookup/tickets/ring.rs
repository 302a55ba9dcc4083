//! Ring of the current ticket keys.

use std::fmt;

use arc_swap::ArcSwap;
use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use aws_lc_rs::hkdf::{HKDF_SHA256, Prk, Salt};
use aws_lc_rs::rand;
use sekisho_certs::Secret;
use zeroize::Zeroizing;

use super::document;

/// Ticket keys of a process, shared by all hosts and workers, and swapped
/// atomically.
#[derive(Debug)]
pub struct Ring(ArcSwap<Keys>);

struct Keys {
    all: Vec<Key>,
    sealing: Sealing,
    /// The keys as their source gave them, for a process that takes over.
    given: Vec<Timed>,
}

/// Key that seals until the next install.
struct Sealing {
    /// Name and salt, the first bytes of each ticket.
    head: [u8; NAME_LEN + SALT_LEN],
    aead: LessSafeKey,
}

impl Ring {
    /// Makes a ring with one random key of this process.
    ///
    /// # Panics
    /// If the system gives no random bytes.
    #[must_use]
    pub fn random() -> Self {
        Self(ArcSwap::from_pointee(Keys::new(&[Timed::random(0)], 0)))
    }

    /// Returns the keys in the form that [`Keeper::begin_with_keys`](super::Keeper) takes.
    /// They open recorded TLS 1.2 sessions: they go to no file and no environment.
    #[must_use]
    pub fn keys(&self) -> Secret {
        document::encode(&self.0.load().given)
    }

    /// Replaces the keys. All of them open tickets; the one at `sealing` seals.
    /// An empty list changes nothing.
    pub(super) fn install(&self, all: &[Timed], sealing: usize) {
        if sealing < all.len() {
            self.0.store(Keys::new(all, sealing).into());
        }
    }

    /// Seals a ticket: the key's name, the salt, the nonce, ciphertext and tag.
    pub(crate) fn seal(&self, binding: &[u8], plain: &[u8]) -> Option<Vec<u8>> {
        let keys = self.0.load();
        let key = &keys.sealing;
        // Nonces are random: after 2^32 tickets under one key, two are equal
        // with a probability of 2^-33. A fleet may make more. Hence the salt
        // gives each server its own key with each install.
        let mut head = [0; HEAD_LEN];
        let (front, nonce) = head.split_at_mut(NAME_LEN + SALT_LEN);
        front.copy_from_slice(&key.head);
        rand::fill(nonce).ok()?;
        let mut ticket = Vec::with_capacity(HEAD_LEN + plain.len() + TAG_LEN);
        ticket.extend_from_slice(&head);
        ticket.extend_from_slice(plain);
        let nonce = Nonce::try_assume_unique_for_key(&head[NAME_LEN + SALT_LEN..]).ok()?;
        let tag = key
            .aead
            .seal_in_place_separate_tag(nonce, Aad::from(binding), &mut ticket[HEAD_LEN..])
            .ok()?;
        ticket.extend_from_slice(tag.as_ref());
        Some(ticket)
    }

    pub(crate) fn open(&self, binding: &[u8], ticket: &[u8]) -> Option<Vec<u8>> {
        let (front, rest) = ticket.split_at_checked(NAME_LEN + SALT_LEN)?;
        let (nonce, sealed) = rest.split_at_checked(NONCE_LEN)?;
        let keys = self.0.load();
        let derived;
        let aead = if keys.sealing.head == front {
            &keys.sealing.aead
        } else {
            let (name, salt) = front.split_at(NAME_LEN);
            let key = keys.all.iter().find(|key| key.name == name)?;
            derived = key.derive(salt);
            &derived
        };
        let nonce = Nonce::try_assume_unique_for_key(nonce).ok()?;
        let mut plain = sealed.to_vec();
        let len = aead
            .open_in_place(nonce, Aad::from(binding), &mut plain)
            .ok()?
            .len();
        plain.truncate(len);
        Some(plain)
    }
}

impl Keys {
    fn new(all: &[Timed], sealing: usize) -> Self {
        let given = all.to_vec();
        let all: Vec<_> = all.iter().map(Key::new).collect();
        let key = &all[sealing];
        let mut head = [0; NAME_LEN + SALT_LEN];
        let (name, salt) = head.split_at_mut(NAME_LEN);
        name.copy_from_slice(&key.name);
        rand::fill(salt).expect("the system gives random bytes");
        let aead = key.derive(salt);
        let sealing = Sealing { head, aead };
        Self {
            all,
            sealing,
            given,
        }
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Keys({})", self.all.len())
    }
}

/// Ticket key that servers share. Each server derives its sealing key from it.
struct Key {
    name: [u8; NAME_LEN],
    prk: Prk,
}

impl Key {
    fn new(key: &Timed) -> Self {
        let prk = Salt::new(HKDF_SHA256, &key.name).extract(&*key.secret);
        Self {
            name: key.name,
            prk,
        }
    }

    /// Derives the key of a server that chose this salt (RFC 5869).
    fn derive(&self, salt: &[u8]) -> LessSafeKey {
        let info = [b"sekisho ticket 1".as_slice(), salt];
        let expanded = self.prk.expand(&info, &AES_256_GCM);
        let key = expanded.expect("HKDF gives 32 bytes");
        LessSafeKey::new(UnboundKey::from(key))
    }
}

/// Ticket key as its source has it, with the start of its period.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Timed {
    /// When the key begins to seal, in seconds since the Unix epoch. It seals
    /// for one period, and opens for one more.
    pub(super) from: i64,
    /// The public name.
    pub(super) name: [u8; NAME_LEN],
    pub(super) secret: Zeroizing<[u8; SECRET_LEN]>,
}

impl Timed {
    /// Makes a random key.
    pub(super) fn random(from: i64) -> Self {
        let (mut name, mut secret) = ([0; NAME_LEN], Zeroizing::new([0; SECRET_LEN]));
        rand::fill(&mut name).expect("the system gives random bytes");
        rand::fill(secret.as_mut()).expect("the system gives random bytes");
        Self { from, name, secret }
    }
}

impl fmt::Debug for Timed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Timed(from {})", self.from)
    }
}

/// Bytes of a key's name, as in nginx's files.
pub(super) const NAME_LEN: usize = 16;
pub(super) const SECRET_LEN: usize = 32;
/// Bytes of a random salt: with 16, no two servers choose the same.
const SALT_LEN: usize = 16;
const HEAD_LEN: usize = NAME_LEN + SALT_LEN + NONCE_LEN;
const TAG_LEN: usize = 16;

#[cfg(test)]
mod tests {
    use super::*;

    fn key(number: u8) -> Timed {
        Timed {
            from: 0,
            name: [number; NAME_LEN],
            secret: Zeroizing::new([number; SECRET_LEN]),
        }
    }

    #[test]
    fn other_servers_open_tickets_and_old_ones_too() {
        let (one, other) = (Ring::random(), Ring::random());
        one.install(&[key(1), key(2)], 1);
        let ticket = one.seal(b"host", b"session").unwrap();
        assert_eq!(other.open(b"host", &ticket), None);
        other.install(&[key(2), key(3)], 1);
        assert_eq!(other.open(b"host", &ticket).unwrap(), b"session");
        other.install(&[key(3)], 0);
        assert_eq!(other.open(b"host", &ticket), None);
    }

    #[test]
    fn each_server_seals_with_a_key_of_its_own() {
        let rings = [Ring::random(), Ring::random()];
        let heads = rings.each_ref().map(|ring| {
            ring.install(&[key(1)], 0);
            let head = ring.0.load().sealing.head;
            assert_eq!(head[..NAME_LEN], [1; NAME_LEN]);
            head
        });
        assert_ne!(heads[0], heads[1]);
        let ticket = rings[0].seal(b"host", b"session").unwrap();
        assert_eq!(rings[1].open(b"host", &ticket).unwrap(), b"session");
    }

    #[test]
    fn no_list_leaves_the_ring_without_a_key() {
        let ring = Ring::random();
        let ticket = ring.seal(b"", b"session").unwrap();
        ring.install(&[], 0);
        ring.install(&[key(1)], 1);
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
