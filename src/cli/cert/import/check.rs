//! From two files to a credential that may be stored, or the reason why not.

use std::fs::File;
use std::io::Read;
use std::path::Path;

use aws_lc_rs::digest::{Context, SHA256};
use sekisho_certs::{Credential, HostPattern, StoredCredential};
use zeroize::Zeroizing;

use super::source::{Files, Hosts, Refusal};
use crate::cli::cert::leaf;
use crate::cli::output::rfc3339;

/// A pair that passed every check.
pub(super) struct Checked {
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

/// Reads a pair and checks it.
pub(super) fn check(files: Files, dates: Dates) -> Result<Checked, Refusal> {
    let chain = read(&files.chain)?;
    let key = read(&files.key)?;
    let credential = Credential::from_pem(&chain, &key).map_err(|error| {
        let path = if error.is_about_key() { &files.key } else { &files.chain };
        Refusal::new(path, error.to_string())
    })?;
    let refuse = |reason| Refusal::new(&files.chain, reason);
    dates.check(&credential).map_err(refuse)?;
    let hosts = hosts(files.hosts, credential.names()).map_err(refuse)?;
    let credential = credential.into_stored();
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
