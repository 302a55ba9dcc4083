//! Checks of the pairs that a hook gives.

use std::sync::Arc;

use aws_lc_rs::digest::{SHA256, digest};
use foldhash::quality::RandomState;
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use sekisho_certs::cache::bounded;
use sekisho_certs::credential::{Credential, CredentialError, Dates};

/// Chains that passed all checks, by the digest of their text: a script gives one chain
/// many times, and its signatures take 0.2 ms. The least used goes first.
#[derive(Debug)]
pub(super) struct Verified(Cache<[u8; 32], Ordered, ByWeight, RandomState>);

/// Certificates of a chain that had to be put in order, as DER; none for one that is in
/// order.
type Ordered = Option<Arc<[u8]>>;

impl Verified {
    pub(super) fn new() -> Self {
        Self(bounded(ByWeight, MEMORY, USUAL, 1))
    }

    /// Reads a pair, and checks it as an import does: forms, key, leaf, order and
    /// signatures of the chain, sizes, extensions. Of a chain that passed before, only
    /// the key is checked against its leaf. Without `signatures`, a chain is taken if its
    /// key, its order and its names are right.
    ///
    /// # Errors
    /// The first check that failed.
    pub(super) fn pair(
        &self,
        chain: &[u8],
        key: &[u8],
        signatures: bool,
    ) -> Result<Credential, String> {
        if !signatures
            && let Some(named) =
                Credential::parse_named(chain, key).map_err(|error| said(&error))?
        {
            return Ok(named);
        }
        let digest: [u8; 32] = digest(&SHA256, chain)
            .as_ref()
            .try_into()
            .expect("SHA-256 has 32 bytes");
        if let Some(ordered) = self.0.get(&digest) {
            let chain = ordered.as_deref().unwrap_or(chain);
            return Credential::parse_stored(chain, key).map_err(|error| said(&error));
        }
        let credential = Credential::parse(chain, key, Dates::Any).map_err(|error| said(&error))?;
        let verified = credential.verify(&[], Dates::Any);
        verified.map_err(|error| said(&error))?;
        let stored = Credential::parse_stored(chain, key).map_err(|error| said(&error))?;
        let is_ordered = stored.chain() == credential.chain();
        let ders = || credential.chain().iter().flat_map(|der| &**der).copied();
        self.0
            .insert(digest, (!is_ordered).then(|| ders().collect()));
        Ok(credential)
    }
}

/// Bytes of an entry.
#[derive(Clone)]
struct ByWeight;

impl Weighter<[u8; 32], Ordered> for ByWeight {
    fn weight(&self, _: &[u8; 32], ordered: &Ordered) -> u64 {
        (USUAL + ordered.as_ref().map_or(0, |ders| ders.len())) as u64
    }
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

/// Bytes of the chains whose check is remembered.
const MEMORY: usize = 512 << 10;
/// Bytes of a chain that is in order.
const USUAL: usize = 100;
