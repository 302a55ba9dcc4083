//! Checks a pair of files: makes a credential, or the reason of a refusal.

use std::io::ErrorKind;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use sekisho_certs::credential::{Credential, CredentialError, Dates};
use sekisho_certs::{CredentialId, HostPattern, Secret, StoredCredential};
use sekisho_stores::files::read_bounded;
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
    let (chain, key) = (read(&files.chain)?, read(&files.key)?);
    let (chain, key) = ((&*files.chain, &**chain), (&*files.key, &**key));
    pair(chain, key, files.hosts.clone(), dates, roots)
}

/// Checks a pair of files, each with its path, as a client would.
pub(crate) fn pair(
    (chain_path, chain): (&Path, &[u8]),
    (key_path, key): (&Path, &[u8]),
    hosts: Hosts,
    dates: Dates,
    roots: &Roots,
) -> Result<Checked, Refusal> {
    let parsed = match Credential::parse(chain, key, dates) {
        Err(CredentialError::Incomplete { .. } | CredentialError::WrongIssuer { .. }) => {
            Credential::parse_under(chain, key, dates, roots.all())
        }
        other => other,
    };
    let credential = parsed.map_err(|error| {
        let path = match is_about_key(&error, chain, dates) {
            true => key_path,
            false => chain_path,
        };
        Refusal::new(path, error.group(), error.to_string())
    })?;
    let hosts = chosen(hosts, credential.names())
        .map_err(|(group, reason)| Refusal::new(chain_path, group, reason))?;
    credential
        .verify(&hosts, dates)
        .map_err(|error| Refusal::new(chain_path, error.group(), error.to_string()))?;
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

/// Returns the hosts of the pair, each covered by the certificate's names; else the group and
/// the reason of the refusal.
fn chosen(
    wanted: Hosts,
    names: &[HostPattern],
) -> Result<Vec<HostPattern>, (&'static str, String)> {
    let hosts = match wanted {
        Hosts::OfLeaf => names.to_vec(),
        Hosts::Named(hosts) => hosts,
    };
    if names.is_empty() {
        let reason = "the certificate has no DNS name that a host can have: names count in \
                      subjectAltName alone, not in the common name (RFC 9525)";
        return Err(("the certificate has no DNS name", reason.into()));
    }
    for host in &hosts {
        check_covers(names, host)
            .map_err(|reason| ("the certificate is for other names", reason))?;
    }
    Ok(hosts)
}

/// Reads a file of a pair.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let refuse = |reason: String| Refusal::new(path, "a file can't be read", reason);
    match read_bounded(path, MAX_FILE) {
        Ok(bytes) if bytes.len() > MAX_FILE => Err(refuse(format!(
            "is larger than {} KiB; that is no certificate chain and no key",
            MAX_FILE / 1024
        ))),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => Refusal::new(path, "half of the pair is missing", "is missing"),
            ErrorKind::IsADirectory => refuse("is not a regular file".into()),
            _ => refuse(error.to_string()),
        }),
    }
}

/// Bytes of the largest file: ten times a PEM chain of ten large certificates.
const MAX_FILE: usize = 256 * 1024;
