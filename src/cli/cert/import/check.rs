//! Checks a pair of files: makes a credential, or the reason of a refusal.

use std::fs::OpenOptions;
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use rustix::fs::OFlags;
use sekisho_certs::credential::{Credential, CredentialError, Dates};
use sekisho_certs::{CredentialId, HostPattern, Secret, StoredCredential};
use zeroize::Zeroizing;

use super::roots::Roots;
use super::source::{Files, Refusal};
use crate::cli::cert::check_covers;

/// Pair that passed every check.
pub(crate) struct Checked {
    pub(super) credential: StoredCredential<Secret>,
    /// Hosts of the pair, each covered by the certificate.
    pub(super) hosts: Vec<HostPattern>,
    /// Digest of the chain.
    pub(super) digest: Digest,
    /// Number of the certificate's names that are none of the hosts.
    pub(super) unserved: usize,
    /// Notes on repairs.
    pub(super) notes: Vec<String>,
}

/// SHA-256 of a chain, which identifies a credential, since a chain has one
/// key.
pub(super) type Digest = [u8; 32];

/// Hosts of a pair.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    /// All DNS names of the leaf.
    OfLeaf,
    /// Exactly these hosts.
    Named(Vec<HostPattern>),
}

/// Reads a pair and checks it.
pub(super) fn files(files: &Files, dates: Dates, roots: &Roots) -> Result<Checked, Refusal> {
    let chain = read(&files.chain)?;
    let key = read(&files.key)?;
    pair(&chain, &key, files.hosts.clone(), dates, roots).map_err(|refused| {
        let file = match refused.is_about_key {
            true => &files.key,
            false => &files.chain,
        };
        Refusal::new(file, refused.group, refused.reason)
    })
}

/// Checks a pair of files as a client would.
pub(crate) fn pair(
    chain: &[u8],
    key: &[u8],
    hosts: Hosts,
    dates: Dates,
    roots: &Roots,
) -> Result<Checked, Refused> {
    let parsed = match Credential::parse(chain, key, dates) {
        Err(CredentialError::Incomplete { .. } | CredentialError::WrongIssuer { .. }) => {
            Credential::parse_under(chain, key, dates, roots.all())
        }
        other => other,
    };
    let credential = parsed.map_err(|error| Refused {
        is_about_key: is_about_key(&error, chain, dates),
        group: error.group(),
        reason: error.to_string(),
    })?;
    let hosts = chosen(hosts, credential.names())?;
    credential
        .verify(&hosts, dates)
        .map_err(|error| Refused::chain(error.group(), error.to_string()))?;
    let names = credential.names().iter();
    let unserved = names.filter(|name| !hosts.contains(name)).count();
    let notes = credential.notes().to_vec();
    let credential = credential.into_stored(CredentialId::from_u64(0));
    let credential = credential.into_sealable();
    Ok(Checked {
        digest: digest(&credential),
        credential,
        hosts,
        unserved,
        notes,
    })
}

/// Refusal of a pair.
#[derive(Debug)]
pub(crate) struct Refused {
    /// True if the key is to blame, not the chain.
    is_about_key: bool,
    pub(crate) group: &'static str,
    pub(crate) reason: String,
}

impl Refused {
    fn chain(group: &'static str, reason: impl Into<String>) -> Self {
        Self {
            is_about_key: false,
            group,
            reason: reason.into(),
        }
    }
}

/// Computes the digest of a stored credential's chain.
pub(super) fn digest<K>(credential: &StoredCredential<K>) -> Digest {
    let mut context = Context::new(&SHA256);
    for certificate in &credential.chain {
        context.update(certificate);
    }
    let digest = context.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

fn is_about_key(error: &CredentialError, chain: &[u8], dates: Dates) -> bool {
    match error {
        CredentialError::NoKey
        | CredentialError::SeveralKeys(_)
        | CredentialError::EncryptedKey
        | CredentialError::UnsupportedKey(_)
        | CredentialError::RsaBits(_)
        | CredentialError::BrokenKey
        | CredentialError::KeyMismatch { .. } => true,
        // Either file may have this error: it is the chain's if it remains
        // without a key.
        CredentialError::Pem { .. } | CredentialError::TooLarge { .. } => {
            Credential::parse(chain, b"", dates).err().as_ref() != Some(error)
        }
        _ => false,
    }
}

/// Returns the hosts of the pair, each covered by the certificate's names.
fn chosen(wanted: Hosts, names: &[HostPattern]) -> Result<Vec<HostPattern>, Refused> {
    let hosts = match wanted {
        Hosts::OfLeaf => names.to_vec(),
        Hosts::Named(hosts) => hosts,
    };
    if names.is_empty() {
        let group = "the certificate has no DNS name";
        let reason = "the certificate has no DNS name that a host can have: names count in \
                      subjectAltName alone, not in the common name (RFC 9525)";
        return Err(Refused::chain(group, reason));
    }
    for host in &hosts {
        check_covers(names, host)
            .map_err(|reason| Refused::chain("the certificate is for other names", reason))?;
    }
    Ok(hosts)
}

/// Reads a file of a pair.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    read_regular(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => Refusal::new(path, "half of the pair is missing", "is missing"),
        _ => Refusal::new(path, "a file can't be read", error.to_string()),
    })
}

/// Reads a whole regular file. The capacity covers it: growing would leave copies
/// of a key. Without `NONBLOCK`, opening a FIFO would wait for its writer.
fn read_regular(path: &Path) -> io::Result<Zeroizing<Vec<u8>>> {
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags)
        .open(path)?;
    let found = file.metadata()?;
    if !found.is_file() {
        return Err(io::Error::other("is not a regular file"));
    }
    let size = found.len().min(MAX_FILE) as usize;
    let mut bytes = Zeroizing::new(Vec::with_capacity(size + 1));
    file.take(MAX_FILE + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(io::Error::other(format!(
            "is larger than {} KiB; that is no certificate chain and no key",
            MAX_FILE / 1024
        )));
    }
    Ok(bytes)
}

/// Bytes of the largest file: ten times a PEM chain of ten large certificates.
const MAX_FILE: u64 = 256 * 1024;
