//! From two files to a credential that may be stored, or the reason why not.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use sekisho_certs::credential::{Credential, CredentialError, Dates};
use sekisho_certs::{CredentialId, HostPattern, StoredCredential};
use zeroize::Zeroizing;

use super::source::{Files, Refusal};
use crate::cli::cert::check_covers;

/// A pair that passed every check.
pub(crate) struct Checked {
    pub(super) credential: StoredCredential,
    /// Each covered by the certificate.
    pub(super) hosts: Vec<HostPattern>,
    /// Of the chain.
    pub(super) digest: Digest,
    /// What was repaired.
    pub(super) notes: Vec<String>,
}

/// SHA-256 of a chain; tells credentials apart, since a chain has one key.
pub(super) type Digest = [u8; 32];

/// For which hosts a pair is.
#[derive(Clone, Debug)]
pub(crate) enum Hosts {
    /// All DNS names of the leaf.
    OfLeaf,
    /// Exactly these.
    Named(Vec<HostPattern>),
}

/// Reads a pair and checks it.
pub(super) fn files(files: &Files, dates: Dates) -> Result<Checked, Refusal> {
    let chain = read(&files.chain)?;
    let key = read(&files.key)?;
    pair(&chain, &key, files.hosts.clone(), dates).map_err(|refused| match refused {
        Refused::Chain(reason) => Refusal::new(&files.chain, reason),
        Refused::Key(reason) => Refusal::new(&files.key, reason),
    })
}

/// Checks a pair of files.
pub(crate) fn pair(
    chain: &[u8],
    key: &[u8],
    hosts: Hosts,
    dates: Dates,
) -> Result<Checked, Refused> {
    let credential = Credential::parse(chain, key, dates).map_err(|error| {
        if is_about_key(&error, chain, dates) {
            Refused::Key(error.to_string())
        } else {
            Refused::Chain(error.to_string())
        }
    })?;
    let hosts = chosen(hosts, credential.names()).map_err(Refused::Chain)?;
    let notes = credential.notes().to_vec();
    let credential = credential.into_stored(CredentialId::from_u64(0));
    Ok(Checked {
        digest: digest(&credential),
        credential,
        hosts,
        notes,
    })
}

/// Why a pair was refused, and which half is to blame.
#[derive(Debug)]
pub(crate) enum Refused {
    Chain(String),
    Key(String),
}

impl Refused {
    pub(crate) fn into_reason(self) -> String {
        match self {
            Self::Chain(reason) | Self::Key(reason) => reason,
        }
    }
}

/// Of a stored credential's chain.
pub(super) fn digest(credential: &StoredCredential) -> Digest {
    let mut context = Context::new(&SHA256);
    for certificate in &credential.chain {
        context.update(certificate);
    }
    let mut digest = [0; 32];
    digest.copy_from_slice(context.finish().as_ref());
    digest
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
        // Either file may have such lines or such a size: the chain's fault
        // stays without any key.
        CredentialError::Pem { .. } | CredentialError::TooLarge { .. } => {
            Credential::parse(chain, b"", dates).err().as_ref() != Some(error)
        }
        _ => false,
    }
}

/// The hosts that the pair is for, each covered by the certificate's names.
fn chosen(wanted: Hosts, names: &[HostPattern]) -> Result<Vec<HostPattern>, String> {
    match wanted {
        Hosts::OfLeaf if names.is_empty() => {
            Err("the certificate has no DNS name that a host can have".into())
        }
        Hosts::OfLeaf => Ok(names.to_vec()),
        Hosts::Named(hosts) => {
            for host in &hosts {
                check_covers(names, host)?;
            }
            Ok(hosts)
        }
    }
}

/// The whole file. Room is made for all of it at once: a buffer that grows
/// leaves copies of a key behind.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let refuse = |reason: String| Refusal::new(path, reason);
    let file = File::open(path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => refuse("is missing".into()),
        _ => refuse(error.to_string()),
    })?;
    let size = match file.metadata() {
        Ok(metadata) if metadata.is_file() => metadata.len().min(MAX_FILE),
        _ => MAX_FILE,
    };
    let mut bytes = Zeroizing::new(Vec::with_capacity(size as usize + 1));
    file.take(MAX_FILE + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| refuse(error.to_string()))?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(refuse(format!(
            "is larger than {} KiB; that is no certificate chain and no key",
            MAX_FILE / 1024
        )));
    }
    Ok(bytes)
}

/// A chain of ten large certificates in PEM has a tenth of it.
const MAX_FILE: u64 = 256 * 1024;
