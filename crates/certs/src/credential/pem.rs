//! Reader and writer of PEM (RFC 7468). Errors name the line that is wrong, and no piece
//! of a key is left in memory: general readers promise neither.

use std::mem;

use data_encoding::BASE64;
use memchr::memchr;
use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::Secret;
use super::base64::Base64;
use super::error::CredentialError;
use crate::der::{self, SEQUENCE, element};
use crate::printable;

/// Certificates and keys of a file.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) keys: Vec<Secret>,
}

/// Reads PEM, or DER if that is what it is. Text around the sections, and
/// sections of other kinds, are passed over.
pub(super) fn read(bytes: &[u8], what: Wanted) -> Result<Contents, CredentialError> {
    CredentialError::check_size("the file", bytes.len(), MAX_INPUT)?;
    let bytes = bytes.strip_prefix(BYTE_ORDER_MARK).unwrap_or(bytes);
    // DER begins with a SEQUENCE, which is a '0' in text: no PEM begins so.
    if bytes.first() == Some(&0x30) && !contains(bytes, BEGIN) {
        return what.der(bytes);
    }
    let mut reader = Reader {
        // No section stands for more bytes.
        room: (bytes.len() * 3 / 4).min(KEY_ROOM),
        contents: Contents::default(),
        section: None,
    };
    // Without any LF, lines may end with CR alone.
    let line_end = match memchr(b'\n', bytes) {
        Some(_) => b'\n',
        None => b'\r',
    };
    let (mut rest, mut number) = (bytes, 0);
    while !rest.is_empty() {
        number += 1;
        let end = memchr(line_end, rest).unwrap_or(rest.len());
        reader.line(rest[..end].trim_ascii(), number)?;
        rest = rest.get(end + 1..).unwrap_or_default();
    }
    reader.end()
}

/// Meaning of DER, which has no label.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Certificates,
    Key,
}

impl Wanted {
    fn der(self, bytes: &[u8]) -> Result<Contents, CredentialError> {
        // PKCS#12 begins with its version, 3 (RFC 7292, section 4).
        if element(bytes, SEQUENCE).is_some_and(|(inside, _)| inside.starts_with(&[2, 1, 3])) {
            return Err(CredentialError::Pkcs12);
        }
        let mut contents = Contents::default();
        match self {
            Self::Key => contents.keys.push(Secret::new(bytes.to_vec())),
            Self::Certificates => {
                // Bytes that can't be split are one certificate, and a bad one.
                let parts = der::split(bytes).unwrap_or_else(|| vec![bytes]);
                let certificates = parts.into_iter().map(|part| part.to_vec().into());
                contents.certificates = certificates.collect();
            }
        }
        Ok(contents)
    }
}

struct Reader<'a> {
    room: usize,
    contents: Contents,
    section: Option<Section<'a>>,
}

impl<'a> Reader<'a> {
    fn line(&mut self, line: &'a [u8], number: usize) -> Result<(), CredentialError> {
        if let Some(label) = framed(line, BEGIN) {
            if let Some(open) = &self.section {
                return Err(open.unfinished());
            }
            self.section = Some(Section::open(label, number, self.room)?);
        } else if let Some(label) = framed(line, END) {
            if contains(label, b"-----") {
                let what = "END and BEGIN stand on one line; put a line break between them";
                return Err(wrong(number, what.to_owned()));
            }
            match self.section.take() {
                Some(section) if section.label == label => self.close(section),
                Some(section) => return Err(section.unfinished()),
                None => {
                    let label = escaped(label);
                    return Err(wrong(number, format!("END {label} without its BEGIN")));
                }
            }
        } else if let Some(section) = &mut self.section {
            section.add(line, number)?;
        }
        Ok(())
    }

    fn close(&mut self, mut section: Section<'_>) {
        if CERTIFICATES.contains(&section.label) {
            let mut bytes = mem::take(&mut *section.bytes);
            bytes.shrink_to_fit();
            self.contents.certificates.push(bytes.into());
        } else if KEYS.contains(&section.label) {
            // The exact size: a secret keeps no more than it is.
            self.contents.keys.push(Secret::new(section.bytes.to_vec()));
        }
    }

    fn end(self) -> Result<Contents, CredentialError> {
        match self.section {
            Some(open) => Err(open.unfinished()),
            None => Ok(self.contents),
        }
    }
}

struct Section<'a> {
    label: &'a [u8],
    line: usize,
    bytes: Zeroizing<Vec<u8>>,
    base64: Base64,
}

impl<'a> Section<'a> {
    fn open(label: &'a [u8], line: usize, room: usize) -> Result<Self, CredentialError> {
        if label.starts_with(b"ENCRYPTED ") {
            return Err(CredentialError::EncryptedKey);
        }
        Ok(Self {
            label,
            line,
            bytes: Zeroizing::new(Vec::with_capacity(room)),
            base64: Base64::default(),
        })
    }

    fn add(&mut self, line: &[u8], number: usize) -> Result<(), CredentialError> {
        if memchr(b':', line).is_some() {
            // A header of the old encapsulation (RFC 1421).
            return match contains(line, b"ENCRYPTED") {
                true => Err(CredentialError::EncryptedKey),
                false => Ok(()),
            };
        }
        let decoded = self.base64.decode(line, &mut self.bytes);
        decoded.map_err(|what| wrong(number, format!("{what} in {}", escaped(self.label))))
    }

    fn unfinished(&self) -> CredentialError {
        let label = escaped(self.label);
        wrong(
            self.line,
            format!("BEGIN {label} has no END {label}: the file was cut"),
        )
    }
}

/// Writes a section of PEM, 64 characters a line (RFC 7468, section 2).
pub fn write(text: &mut String, label: &str, bytes: &[u8]) {
    *text += &format!("-----BEGIN {label}-----\n");
    for line in bytes.chunks(BYTES_PER_LINE) {
        BASE64.encode_append(line, text);
        text.push('\n');
    }
    *text += &format!("-----END {label}-----\n");
}

/// Returns the label of a line that frames a section.
fn framed<'a>(line: &'a [u8], frame: &[u8]) -> Option<&'a [u8]> {
    line.strip_prefix(frame)?.strip_suffix(b"-----")
}

fn escaped(label: &[u8]) -> String {
    printable(&String::from_utf8_lossy(label))
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn wrong(line: usize, what: String) -> CredentialError {
    CredentialError::Pem { line, what }
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";
const CERTIFICATES: [&[u8]; 2] = [b"CERTIFICATE", b"X509 CERTIFICATE"];
const KEYS: [&[u8]; 3] = [b"PRIVATE KEY", b"EC PRIVATE KEY", b"RSA PRIVATE KEY"];
/// Bytes of a line of 64 characters.
const BYTES_PER_LINE: usize = 48;
/// A key of any size we take: growing would leave copies.
const KEY_ROOM: usize = 4096;
/// Far more than ten certificates and a key; bounds what a wrong file costs.
const MAX_INPUT: usize = 1 << 20;
