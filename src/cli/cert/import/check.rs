//! Checks a pair: makes a credential, or the reason of a refusal.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use sekisho_certs::credential::{Credential, CredentialError, Dates};
use sekisho_certs::{CredentialId, HostPattern, Secret, StoredCredential};
use sekisho_stores::files::read_bounded;
use zeroize::Zeroizing;

use super::roots::Roots;
use super::source::{HALF_MISSING, Half, Names, Pair, Refusal};
use super::sources::contains;
use crate::cli::cert::check_covers;

/// Pair that passed every check.
pub(crate) struct Checked {
    /// Place of the chain.
    pub(super) place: PathBuf,
    /// Name of the source, if it is to be noted.
    pub(super) source_name: Option<Arc<str>>,
    pub(super) credential: StoredCredential<Secret>,
    /// Hosts of the pair, each covered by the certificate.
    pub(super) hosts: Vec<HostPattern>,
    /// Those hosts that the source names for the pair.
    pub(super) named: Vec<HostPattern>,
    /// Digest of the chain.
    pub(super) digest: Digest,
    /// Notes on repairs.
    pub(super) notes: Vec<String>,
}

/// SHA-256 of a chain, which identifies a credential, since a chain has one
/// key.
pub(super) type Digest = [u8; 32];

/// Reads the halves of a pair and checks them.
pub(super) fn checked(read: Pair, dates: Dates, roots: &Roots) -> Result<Checked, Refusal> {
    let (place, chain) = open(read.chain)?;
    let key = match read.key {
        Some(Half::Beside(_)) if contains(&chain, PRIVATE_KEY) => None,
        key => key.map(open).transpose()?,
    };
    let chain = (place.as_path(), chain.as_slice());
    let key = match &key {
        Some((place, key)) => (place.as_path(), key.as_slice()),
        None => chain,
    };
    let checked = check_pair(chain, key, read.names.clone(), dates, roots);
    let mut checked = checked.map_err(|refusal| Refusal {
        hosts: hosts_of(chain.1, key.1, read.names),
        ..refusal
    })?;
    checked.source_name = read.source_name;
    Ok(checked)
}

/// Returns the hosts of a pair that was refused; none if it can't be read.
fn hosts_of(chain: &[u8], key: &[u8], names: Names) -> Vec<HostPattern> {
    let Ok(credential) = Credential::parse(chain, key, Dates::Any) else {
        return Vec::new();
    };
    let named = match names {
        Names::Leaf => Vec::new(),
        Names::OfLeaf(named) | Names::WithLeaf(named) | Names::Exactly(named) => named,
    };
    [credential.names(), &named].concat()
}

/// Checks both halves of a pair, each with its place, as a client would.
pub(crate) fn check_pair(
    (chain_path, chain): (&Path, &[u8]),
    (key_path, key): (&Path, &[u8]),
    names: Names,
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
    let [hosts, named] = chosen(names, credential.names())
        .map_err(|(group, reason)| Refusal::new(chain_path, group, reason))?;
    credential
        .verify(&hosts, dates)
        .map_err(|error| Refusal::new(chain_path, error.group(), error.to_string()))?;
    let notes = credential.notes().to_vec();
    let credential = credential.into_stored(CredentialId::from_u64(0));
    let credential = credential.into_sealable();
    Ok(Checked {
        place: chain_path.to_owned(),
        source_name: None,
        digest: digest(&credential),
        credential,
        hosts,
        named,
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

/// Returns the hosts of the pair, each covered by the certificate's names, and those of them
/// that the source names; else the group and the reason of the refusal.
fn chosen(
    wanted: Names,
    names: &[HostPattern],
) -> Result<[Vec<HostPattern>; 2], (&'static str, String)> {
    if names.is_empty() {
        let reason = "the certificate has no DNS name that a host can have: names count in \
                      subjectAltName alone, not in the common name (RFC 9525)";
        return Err(("the certificate has no DNS name", reason.into()));
    }
    let (hosts, named) = match wanted {
        Names::Leaf => (names.to_vec(), names.to_vec()),
        Names::OfLeaf(mut named) => {
            named.retain(|host| names.contains(host));
            (names.to_vec(), named)
        }
        Names::WithLeaf(named) => {
            let further = named.iter().filter(|host| !names.contains(host));
            (names.iter().chain(further).cloned().collect(), named)
        }
        Names::Exactly(named) => (named.clone(), named),
    };
    for host in &named {
        check_covers(names, host)
            .map_err(|reason| ("the certificate is for other names", reason))?;
    }
    Ok([hosts, named])
}

/// Returns the bytes of a half with their place.
fn open(half: Half) -> Result<(PathBuf, Zeroizing<Vec<u8>>), Refusal> {
    match half {
        Half::File(path) | Half::Beside(path) => read(&path).map(|bytes| (path, bytes)),
        Half::Bytes(place, bytes) if bytes.len() > MAX_FILE => Err(too_large(&place)),
        Half::Bytes(place, bytes) => Ok((place, bytes)),
    }
}

/// Reads a file of a pair.
fn read(path: &Path) -> Result<Zeroizing<Vec<u8>>, Refusal> {
    let refuse = |reason: String| Refusal::new(path, UNREADABLE, reason);
    match read_bounded(path, MAX_FILE) {
        Ok(bytes) if bytes.len() > MAX_FILE => Err(too_large(path)),
        Ok(bytes) => Ok(bytes),
        Err(error) => Err(match error.kind() {
            ErrorKind::NotFound => Refusal::new(path, HALF_MISSING, "is missing"),
            ErrorKind::IsADirectory => refuse("is not a regular file".into()),
            _ => refuse(error.to_string()),
        }),
    }
}

/// Refuses a file, or what stands for one, by its size.
pub(super) fn too_large(place: &Path) -> Refusal {
    let most = MAX_FILE / 1024;
    let reason = format!("is larger than {most} KiB; that is no certificate chain and no key");
    Refusal::new(place, UNREADABLE, reason)
}

/// End of the line before a private key, of any form.
const PRIVATE_KEY: &[u8] = b" PRIVATE KEY-----";
/// Group of what can't be read.
const UNREADABLE: &str = "a file can't be read";
/// Bytes of the largest half: ten times a PEM chain of ten large certificates.
pub(super) const MAX_FILE: usize = 256 * 1024;
