//! From two files to a credential that may be stored, or the reason why not.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use sekisho_certs::{HostPattern, StoredCredential};
use zeroize::Zeroizing;

use super::source::{Files, Refusal};
use crate::cli::cert::Leaf;
use crate::cli::output::rfc3339;

/// A pair that passed every check.
pub(crate) struct Checked {
    pub(super) credential: StoredCredential,
    /// Each covered by the certificate.
    pub(super) hosts: Vec<HostPattern>,
    /// Of the chain.
    pub(super) digest: Digest,
}

/// SHA-256 of a chain; tells credentials apart, since a chain has one key.
pub(super) type Digest = [u8; 32];

/// What is checked beyond the pair itself.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dates {
    /// Seconds since the Unix epoch.
    pub(super) now: i64,
    /// Takes what is not valid now, too.
    pub(super) allow_expired: bool,
}

/// For which hosts a pair is.
#[derive(Debug)]
pub(crate) enum Hosts {
    /// All DNS names of the leaf.
    OfLeaf,
    /// Exactly these.
    Named(Vec<HostPattern>),
}

/// Reads a pair and checks it.
pub(super) fn files(files: Files, dates: Dates) -> Result<Checked, Refusal> {
    let chain = read(&files.chain)?;
    let key = read(&files.key)?;
    let refuse = |refused: Refused| match refused {
        Refused::Chain(reason) => Refusal::new(&files.chain, reason),
        Refused::Key(reason) => Refusal::new(&files.key, reason),
    };
    let checked = pair(&chain, &key, files.hosts).map_err(refuse)?;
    let dated = dates.check(&checked.credential);
    dated.map_err(|reason| Refusal::new(files.chain, reason))?;
    Ok(checked)
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

/// Checks a pair, PEM.
pub(crate) fn pair(chain: &[u8], key: &[u8], hosts: Hosts) -> Result<Checked, Refused> {
    use rustls::pki_types::pem::PemObject;
    use x509_parser::prelude::FromDer;
    let chain: Vec<_> = rustls::pki_types::CertificateDer::pem_slice_iter(chain)
        .collect::<Result<_, _>>()
        .map_err(|e| Refused::Chain(format!("{e}")))?;
    let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(key)
        .map_err(|e| Refused::Key(format!("{e}")))?;
    if chain.is_empty() {
        return Err(Refused::Chain("no certificate".into()));
    }
    rustls::sign::CertifiedKey::from_der(
        chain.clone(),
        key.clone_key(),
        &rustls::crypto::aws_lc_rs::default_provider(),
    )
    .map_err(|e| Refused::Key(format!("{e}")))?;
    let (_, l) = x509_parser::prelude::X509Certificate::from_der(&chain[0]).unwrap();
    let oid = l.public_key().algorithm.algorithm.to_id_string();
    let key_type = match &*oid {
        "1.2.840.10045.2.1" => sekisho_certs::KeyType::Ecdsa,
        "1.3.101.112" => sekisho_certs::KeyType::Ed25519,
        _ => sekisho_certs::KeyType::Rsa,
    };
    let (not_before, not_after) = (
        l.validity().not_before.timestamp(),
        l.validity().not_after.timestamp(),
    );
    let credential = StoredCredential {
        id: sekisho_certs::CredentialId::from_u64(0),
        version: 0,
        key_type,
        key: sekisho_certs::Protected::Plain(sekisho_certs::Secret::new(key.secret_der().to_vec())),
        not_before,
        not_after,
        renew_at: None,
        chain: chain.iter().map(|c| c.clone().into_owned()).collect(),
    };
    let leaf = Leaf::of(&credential).map_err(|e| Refused::Chain(e.to_string()))?;
    let hosts = self::hosts(hosts, &leaf).map_err(Refused::Chain)?;
    Ok(Checked {
        digest: digest(&credential),
        credential,
        hosts,
    })
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

impl Dates {
    fn check(self, credential: &StoredCredential) -> Result<(), String> {
        let Self { now, allow_expired } = self;
        if allow_expired {
            return Ok(());
        }
        let (problem, date) = if now > credential.not_after {
            ("expired", credential.not_after)
        } else if now < credential.not_before {
            ("is not valid before", credential.not_before)
        } else {
            return Ok(());
        };
        Err(format!(
            "the certificate {problem} {}; --allow-expired takes it all the same",
            rfc3339(date)
        ))
    }
}

/// The hosts that the pair is for, each covered by the certificate.
fn hosts(wanted: Hosts, leaf: &Leaf) -> Result<Vec<HostPattern>, String> {
    match wanted {
        Hosts::OfLeaf if leaf.names.is_empty() => {
            Err("the certificate has no DNS name; no client would take it".into())
        }
        Hosts::OfLeaf => Ok(leaf.names.clone()),
        Hosts::Named(hosts) => {
            for host in &hosts {
                leaf.check_covers(host).map_err(|error| error.to_string())?;
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
