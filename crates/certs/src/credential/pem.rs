//! PEM (RFC 7468), read so that an operator learns the line that is wrong,
//! and so that no piece of a key is left in memory: what a general reader
//! does not promise.

use rustls_pki_types::CertificateDer;
use zeroize::Zeroizing;

use super::Secret;
use super::base64::Base64;
use super::door::CredentialError;

/// What a file holds that matters here.
#[derive(Default)]
pub(super) struct Contents {
    pub(super) certificates: Vec<CertificateDer<'static>>,
    pub(super) keys: Vec<Secret>,
}

/// Reads PEM, or DER if that is what it is. Text around the sections, and
/// sections of other kinds, are passed over.
pub(super) fn read(bytes: &[u8], what: Wanted) -> Result<Contents, CredentialError> {
    if bytes.len() > MAX_INPUT {
        return Err(CredentialError::TooLarge {
            what: "the file",
            bytes: bytes.len(),
            most: MAX_INPUT,
        });
    }
    // DER begins with a SEQUENCE, which is a '0' in text: no PEM begins so.
    if bytes.first() == Some(&0x30) && !contains(bytes, BEGIN) {
        return Ok(what.der(bytes));
    }
    let mut reader = Reader::default();
    for (line, number) in bytes.split(|&byte| byte == b'\n').zip(1..) {
        reader.line(line.trim_ascii(), number)?;
    }
    reader.end()
}

/// What DER without a label is taken for.
#[derive(Clone, Copy)]
pub(super) enum Wanted {
    Certificates,
    Key,
}

impl Wanted {
    fn der(self, bytes: &[u8]) -> Contents {
        let mut contents = Contents::default();
        match self {
            Self::Key => contents.keys.push(Secret::new(bytes.to_vec())),
            Self::Certificates => {
                // What can't be split is one certificate, and a bad one.
                let parts = crate::der::split(bytes).unwrap_or_else(|| vec![bytes]);
                let certificates = parts.into_iter().map(|part| part.to_vec().into());
                contents.certificates = certificates.collect();
            }
        }
        contents
    }
}

#[derive(Default)]
struct Reader {
    contents: Contents,
    section: Option<Section>,
}

impl Reader {
    fn line(&mut self, line: &[u8], number: usize) -> Result<(), CredentialError> {
        if let Some(label) = framed(line, BEGIN) {
            if let Some(open) = &self.section {
                return Err(open.unfinished());
            }
            self.section = Some(Section::open(&label, number)?);
        } else if let Some(label) = framed(line, END) {
            match self.section.take() {
                Some(section) if section.label == label => self.close(section),
                Some(section) => return Err(section.unfinished()),
                None => return Err(wrong(number, format!("END {label} without its BEGIN"))),
            }
        } else if let Some(section) = &mut self.section {
            section.add(line, number)?;
        }
        Ok(())
    }

    fn close(&mut self, section: Section) {
        let Section { label, bytes, .. } = section;
        if CERTIFICATES.contains(&label.as_str()) {
            self.contents.certificates.push(bytes.to_vec().into());
        } else if KEYS.contains(&label.as_str()) {
            // The exact size: a secret keeps no more than it is.
            self.contents.keys.push(Secret::new(bytes.to_vec()));
        }
    }

    fn end(self) -> Result<Contents, CredentialError> {
        match self.section {
            Some(open) => Err(open.unfinished()),
            None => Ok(self.contents),
        }
    }
}

struct Section {
    label: String,
    line: usize,
    bytes: Zeroizing<Vec<u8>>,
    base64: Base64,
}

impl Section {
    fn open(label: &str, line: usize) -> Result<Self, CredentialError> {
        if label.starts_with("ENCRYPTED ") {
            return Err(CredentialError::EncryptedKey);
        }
        Ok(Self {
            label: label.to_owned(),
            line,
            // A key of any size we take: growing would leave copies.
            bytes: Zeroizing::new(Vec::with_capacity(4096)),
            base64: Base64::default(),
        })
    }

    fn add(&mut self, line: &[u8], number: usize) -> Result<(), CredentialError> {
        if line.contains(&b':') {
            // A header of the old encapsulation (RFC 1421).
            return match contains(line, b"ENCRYPTED") {
                true => Err(CredentialError::EncryptedKey),
                false => Ok(()),
            };
        }
        let label = &self.label;
        self.base64
            .decode(line, &mut self.bytes)
            .map_err(|what| wrong(number, format!("{what} in {label}")))
    }

    fn unfinished(&self) -> CredentialError {
        wrong(
            self.line,
            format!("BEGIN {0} has no END {0}: the file was cut", self.label),
        )
    }
}

/// The label of a line that frames a section.
fn framed(line: &[u8], frame: &[u8]) -> Option<String> {
    let label = line.strip_prefix(frame)?.strip_suffix(b"-----")?;
    Some(String::from_utf8_lossy(label).escape_debug().to_string())
}

fn contains(bytes: &[u8], wanted: &[u8]) -> bool {
    bytes.windows(wanted.len()).any(|window| window == wanted)
}

fn wrong(line: usize, what: String) -> CredentialError {
    CredentialError::Pem { line, what }
}

const BEGIN: &[u8] = b"-----BEGIN ";
const END: &[u8] = b"-----END ";
const CERTIFICATES: [&str; 2] = ["CERTIFICATE", "X509 CERTIFICATE"];
const KEYS: [&str; 3] = ["PRIVATE KEY", "EC PRIVATE KEY", "RSA PRIVATE KEY"];
/// Far more than ten certificates and a key; bounds what a wrong file costs.
const MAX_INPUT: usize = 1 << 20;
