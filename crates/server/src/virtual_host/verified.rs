//! Checks of the pairs that a hook gives.

use std::fmt;

use aws_lc_rs::digest::{Digest, SHA256, digest};
use foldhash::quality::RandomState;
use quick_cache::UnitWeighter;
use quick_cache::sync::{Cache, DefaultLifecycle};
use sekisho_certs::credential::{Credential, CredentialError, Dates};
use sekisho_certs::{Clock, HostPattern};

/// Chains that passed all checks, by the digest of their text. A script that keeps
/// nothing gives the same chain in each handshake, and signatures take 0.1 ms.
pub(super) struct Verified(Cache<[u8; 32], (), UnitWeighter, RandomState>);

impl Verified {
    pub(super) fn new() -> Self {
        Self(Cache::with(
            MOST,
            MOST as u64,
            UnitWeighter,
            RandomState::default(),
            DefaultLifecycle::default(),
        ))
    }

    /// Reads a pair, and checks it as an import does: forms, key, leaf, order and
    /// signatures of the chain, sizes, extensions. Of a chain that passed before, only
    /// the key is checked against its leaf.
    ///
    /// # Errors
    /// The first check that failed.
    pub(super) fn pair(&self, chain: &[u8], key: &[u8]) -> Result<Credential, String> {
        let digest = text(&digest(&SHA256, chain));
        if self.0.get(&digest).is_some() {
            return Credential::parse_stored(chain, key).map_err(|error| said(&error));
        }
        let credential = Credential::parse(chain, key, Dates::Any).map_err(|error| said(&error))?;
        let verified = credential.verify(&[], Dates::Any);
        verified.map_err(|error| said(&error))?;
        if credential.not_after() < Clock::System.now() {
            let names = Names(credential.names());
            tracing::warn!(%names, "hook: a certificate has expired, and is served on: renew it");
        }
        let stored = Credential::parse_stored(chain, key).map_err(|error| said(&error))?;
        // A chain that was put in order is put in order each time.
        if stored.chain() == credential.chain() {
            self.0.insert(digest, ());
        }
        Ok(credential)
    }
}

impl fmt::Debug for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Verified({})", self.0.len())
    }
}

fn text(digest: &Digest) -> [u8; 32] {
    let bytes = digest.as_ref().try_into();
    bytes.expect("SHA-256 has 32 bytes")
}

/// Says what is wrong. Scripts have no option that names an authority.
fn said(error: &CredentialError) -> String {
    match error {
        CredentialError::Incomplete { leaf, issuer } => format!(
            "the chain is incomplete: {leaf} was issued by {issuer}, whose certificate is \
             missing; add it behind the leaf"
        ),
        other => other.to_string(),
    }
}

/// Names of a certificate, the first few.
struct Names<'a>(&'a [HostPattern]);

impl fmt::Display for Names<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for name in self.0.iter().take(3) {
            write!(f, "{name} ")?;
        }
        Ok(())
    }
}

/// Chains whose check is remembered: 100 KiB.
const MOST: usize = 1024;
