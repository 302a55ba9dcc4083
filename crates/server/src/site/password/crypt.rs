//! `$apr1$`, `$5$` and `$6$`: sums in many rounds, in the alphabet of crypt(3).

use std::sync::LazyLock;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use data_encoding::{BitOrder, Encoding, Specification};
use md5::{Digest, Md5};
use sha_crypt::{Params, sha256_crypt, sha512_crypt};

use super::{malformed, refused};
use crate::site::error::Checked;
use crate::site::value::number;

/// Parts of a hash of crypt(3).
pub(super) struct Crypt<'a> {
    sum: Sum,
    rounds: Params,
    salt: &'a str,
    /// The sum in the alphabet of crypt(3).
    expected: &'a str,
}

/// Sum that a kind of crypt(3) computes in rounds.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Sum {
    /// `$apr1$`, of Apache, with 1,000 rounds.
    Md5,
    /// `$5$`.
    Sha256,
    /// `$6$`.
    Sha512,
}

impl<'a> Crypt<'a> {
    /// Reads `[rounds=N$]SALT$SUM`.
    pub(super) fn parse(text: &'a str, sum: Sum) -> Checked<Self> {
        let (longest_salt, length) = match sum {
            Sum::Md5 => (8, 22),
            Sum::Sha256 => (16, 43),
            Sum::Sha512 => (16, 86),
        };
        let (rounds, text) = match text.split_once('$') {
            Some((rounds, rest)) if sum != Sum::Md5 && rounds.starts_with("rounds=") => {
                (rounds_of(&rounds["rounds=".len()..])?, rest)
            }
            _ => (Params::default(), text),
        };
        let (salt, expected) = text.split_once('$').ok_or_else(malformed)?;
        let has_salt = (1..=longest_salt).contains(&salt.len())
            && salt.bytes().all(|byte| byte.is_ascii_graphic());
        let has_sum = expected.len() == length && expected.bytes().all(is_of_alphabet);
        match has_salt && has_sum {
            true => Ok(Self {
                sum,
                rounds,
                salt,
                expected,
            }),
            false => Err(malformed()),
        }
    }

    pub(super) fn verify(&self, password: &[u8]) -> bool {
        let salt = self.salt.as_bytes();
        let found = match self.sum {
            Sum::Md5 => encode(&apr1(password, salt), &OF_MD5),
            Sum::Sha256 => encode(&sha256_crypt(password, salt, self.rounds), &OF_SHA256),
            Sum::Sha512 => encode(&sha512_crypt(password, salt, self.rounds), &OF_SHA512),
        };
        verify_slices_are_equal(found.as_bytes(), self.expected.as_bytes()).is_ok()
    }
}

/// Reads the rounds of SHA-2, which the crate bounds by 999,999,999: minutes.
fn rounds_of(text: &str) -> Checked<Params> {
    let rounds = number(text).filter(|rounds| *rounds <= MAX_ROUNDS);
    let params = rounds.and_then(|rounds| Params::new(rounds).ok());
    params.ok_or_else(|| {
        let (least, most) = (Params::ROUNDS_MIN, MAX_ROUNDS);
        refused(&format!("its rounds are out of range, {least} to {most}"))
    })
}

/// Computes the MD5 crypt of Apache, which is that of FreeBSD with another prefix.
fn apr1(password: &[u8], salt: &[u8]) -> [u8; 16] {
    let inner = sum(&[password, salt, password]);
    let mut first = Md5::new();
    first.update(password);
    first.update(b"$apr1$");
    first.update(salt);
    for rest in (1..=password.len()).rev().step_by(16) {
        first.update(&inner[..rest.min(16)]);
    }
    let mut bits = password.len();
    while bits > 0 {
        let byte = if bits & 1 == 1 {
            Some(&0)
        } else {
            password.first()
        };
        first.update([*byte.expect("has bits, thus bytes")]);
        bits >>= 1;
    }
    let mut last: [u8; 16] = first.finalize().into();
    for round in 0..1000 {
        let (one, other): (&[u8], &[u8]) = match round % 2 {
            0 => (&last, password),
            _ => (password, &last),
        };
        let salt = if round % 3 == 0 { b"" } else { salt };
        let middle = if round % 7 == 0 { b"" } else { password };
        last = sum(&[one, salt, middle, other]);
    }
    last
}

fn sum(parts: &[&[u8]]) -> [u8; 16] {
    let mut sum = Md5::new();
    for part in parts {
        sum.update(part);
    }
    sum.finalize().into()
}

/// Writes a sum, its bytes in this order.
fn encode(sum: &[u8], order: &[u8]) -> String {
    let ordered: Vec<u8> = order.iter().map(|at| sum[usize::from(*at)]).collect();
    ALPHABET.encode(&ordered)
}

/// Returns whether a byte is of the alphabet of crypt(3).
pub(super) fn is_of_alphabet(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'.' || byte == b'/'
}

/// Base64 of crypt(3): the lowest six bits of three bytes first.
static ALPHABET: LazyLock<Encoding> = LazyLock::new(|| {
    let mut alphabet = Specification::new();
    alphabet.symbols =
        "./0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz".to_owned();
    alphabet.bit_order = BitOrder::LeastSignificantFirst;
    alphabet.encoding().expect("64 symbols")
});
const MAX_ROUNDS: u32 = 100_000;
const OF_MD5: [u8; 16] = [12, 6, 0, 13, 7, 1, 14, 8, 2, 15, 9, 3, 5, 10, 4, 11];
const OF_SHA256: [u8; 32] = [
    20, 10, 0, 11, 1, 21, 2, 22, 12, 23, 13, 3, 14, 4, 24, 5, 25, 15, 26, 16, 6, 17, 7, 27, 8, 28,
    18, 29, 19, 9, 30, 31,
];
const OF_SHA512: [u8; 64] = [
    42, 21, 0, 1, 43, 22, 23, 2, 44, 45, 24, 3, 4, 46, 25, 26, 5, 47, 48, 27, 6, 7, 49, 28, 29, 8,
    50, 51, 30, 9, 10, 52, 31, 32, 11, 53, 54, 33, 12, 13, 55, 34, 35, 14, 56, 57, 36, 15, 16, 58,
    37, 38, 17, 59, 60, 39, 18, 19, 61, 40, 41, 20, 62, 63,
];
