//! Searches bytes for private keys in many forms.

use std::fs;
use std::path::Path;

use sekisho_testkit::Pair;

/// Pieces of secrets to find: as bytes, hexadecimal digits, base64, and as
/// programs print bytes.
pub(crate) struct Search {
    /// Pieces by their first two bytes.
    pieces: Vec<Vec<Box<[u8]>>>,
}

impl Search {
    /// Searches for the secrets of these keys, and for the PEM header of any
    /// key.
    pub(crate) fn of<'a>(pairs: impl IntoIterator<Item = &'a Pair>) -> Self {
        let mut search = Self::empty();
        search.add(b"PRIVATE KEY-----");
        for pair in pairs {
            let mut secrets = Vec::new();
            collect(pair.key_der().secret_der(), &mut secrets);
            assert!(!secrets.is_empty(), "each key has a secret");
            secrets.iter().for_each(|secret| search.add_forms(secret));
        }
        search
    }

    /// Searches for these bytes.
    pub(crate) fn for_bytes<'a>(all: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut search = Self::empty();
        all.into_iter().for_each(|bytes| search.add_forms(bytes));
        search
    }

    /// Returns the position of the first piece in these bytes.
    pub(crate) fn hit(&self, bytes: &[u8]) -> Option<usize> {
        let begins = |at: &usize| {
            let rest = &bytes[*at..];
            let pieces = &self.pieces[place(rest)];
            pieces.iter().any(|piece| rest.starts_with(piece))
        };
        (0..bytes.len().saturating_sub(1)).find(begins)
    }

    /// Fails if these bytes contain a piece.
    pub(crate) fn text(&self, what: &str, bytes: &[u8]) {
        if let Some(at) = self.hit(bytes) {
            panic!("{what} holds a private key at {at} of {}", bytes.len());
        }
    }

    /// Fails if this file, or a file below this folder, contains a piece.
    pub(crate) fn through(&self, path: &Path) {
        each(path, &mut |file, bytes| {
            self.text(&file.display().to_string(), bytes);
        });
    }

    /// Returns whether any file there contains a piece.
    pub(crate) fn hit_below(&self, path: &Path) -> bool {
        let mut hit = false;
        each(path, &mut |_, bytes| {
            hit = hit || self.hit(bytes).is_some();
        });
        hit
    }

    fn empty() -> Self {
        Self {
            pieces: vec![Vec::new(); 1 << 16],
        }
    }

    /// Adds a secret in all forms. Pieces are short: a page or line that ends
    /// within a secret hides only one. They are long enough to match nothing
    /// else.
    fn add_forms(&mut self, secret: &[u8]) {
        let hex: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        self.add_pieces(secret);
        self.add_pieces(hex.as_bytes());
        self.add_pieces(hex.to_uppercase().as_bytes());
        let shown = format!("{secret:?}");
        self.add_pieces(shown.trim_matches(['[', ']']).as_bytes());
        // Also as a text that JSON quotes.
        let escaped = secret.escape_ascii().to_string();
        self.add_pieces(escaped.as_bytes());
        self.add_pieces(escaped.replace('\\', "\\\\").as_bytes());
        // A secret may begin at any byte of a base64 group of three.
        for shift in 0..3 {
            let text = base64(&secret[shift..]);
            self.add_pieces(text.trim_end_matches('=').as_bytes());
        }
    }

    fn add_pieces(&mut self, bytes: &[u8]) {
        let whole = bytes.chunks_exact(PIECE);
        whole.for_each(|piece| self.add(piece));
    }

    fn add(&mut self, piece: &[u8]) {
        self.pieces[place(piece)].push(piece.into());
    }
}

fn place(bytes: &[u8]) -> usize {
    usize::from(bytes[0]) << 8 | usize::from(bytes[1])
}

fn each(path: &Path, with: &mut dyn FnMut(&Path, &[u8])) {
    if path.is_dir() {
        for file in fs::read_dir(path).expect("a folder").flatten() {
            each(&file.path(), with);
        }
    } else if let Ok(bytes) = fs::read(path) {
        // A server may remove a file after it was listed.
        with(path, &bytes);
    }
}

/// Collects the secret numbers and strings of a key in DER: all of a secret's
/// length, except for the modulus of an RSA key.
fn collect(mut der: &[u8], secrets: &mut Vec<Vec<u8>>) {
    let mut numbers = 0;
    while let Some((tag, value, rest)) = element(der) {
        match tag {
            SEQUENCE => collect(value, secrets),
            OCTET_STRING if SECRETS.contains(&value.len()) => secrets.push(value.to_vec()),
            OCTET_STRING => collect(value, secrets),
            INTEGER if value.len() >= NUMBER => {
                numbers += 1;
                if numbers > 1 {
                    secrets.push(value.strip_prefix(&[0]).unwrap_or(value).to_vec());
                }
            }
            _ => {}
        }
        der = rest;
    }
}

/// Returns tag and value of the first element, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..0x80 => (usize::from(first), rest),
        _ => {
            let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            let digit = |sum: usize, digit: &u8| sum.checked_mul(256)?.checked_add((*digit).into());
            (digits.iter().try_fold(0, digit)?, rest)
        }
    };
    let (value, rest) = rest.split_at_checked(length)?;
    Some((tag, value, rest))
}

/// Encodes base64 (RFC 4648, section 4).
pub(crate) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let byte = |at: usize| u32::from(group.get(at).copied().unwrap_or(0));
        let bits = byte(0) << 16 | byte(1) << 8 | byte(2);
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) & 63;
            match digit <= group.len() {
                true => text.push(char::from(DIGITS[index as usize])),
                false => text.push('='),
            }
        }
    }
    text
}

const SEQUENCE: u8 = 0x30;
const OCTET_STRING: u8 = 0x04;
const INTEGER: u8 = 0x02;
/// Lengths of Ed25519 seeds and of scalars. A longer string contains one.
const SECRETS: [usize; 2] = [32, 48];
/// Least length of a secret number of an RSA key; the public exponent is
/// shorter.
const NUMBER: usize = 32;
const PIECE: usize = 16;
