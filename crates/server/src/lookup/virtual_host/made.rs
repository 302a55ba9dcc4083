//! Virtual hosts that a hook made: their certificates stand in no store.

use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use data_encoding::BASE32_NOPAD;
use sekisho_certs::{HostPattern, HostRecord, LoadedHost, Served, Tenant};

use super::verified::Verified;
use super::{Publisher, VirtualHost};
use crate::site::SiteDocument;

/// Parts that a hook makes a virtual host of.
#[derive(Clone, Copy)]
pub struct Made<'a> {
    /// Certificate chain and private key, PEM or DER each; at most one pair per key
    /// type.
    pub pairs: &'a [(&'a [u8], &'a [u8])],
    /// Owner of the host; the operator's own if empty.
    pub tenant: &'a str,
    /// Document of the site; none for `[site]`.
    pub site: Option<&'a str>,
    /// Text under which the hook keeps the result. Session tickets are bound to it:
    /// those of one key are refused under another. Without a key, they are bound to
    /// the leaf of the first pair.
    pub key: Option<&'a str>,
    /// True if the signatures of the chains are verified, which takes 0.2 ms. Otherwise
    /// only the names of a chain's certificates are compared.
    pub signatures: bool,
}

impl Publisher {
    /// Makes what a hook's certificates are served with. Each pair is checked as an import
    /// checks it, but for three things: dates do not count, since an expired certificate
    /// is served on, a leaf never stands alone, unless it is self-signed, and signatures
    /// are verified only where that is wanted.
    ///
    /// # Errors
    /// The first check that failed, in words for the hook's author.
    pub fn make(&self, made: &Made<'_>) -> Result<Arc<Served<VirtualHost>>, String> {
        if made.pairs.is_empty() {
            return Err("there is no certificate".into());
        }
        if made.pairs.len() > MAX_PAIRS {
            let pairs = made.pairs.len();
            return Err(format!(
                "there are {pairs} certificates, at most {MAX_PAIRS} are taken"
            ));
        }
        let mut pairs = Vec::with_capacity(made.pairs.len());
        for (number, (chain, key)) in (1..).zip(made.pairs) {
            let verified = self.verified.get_or_init(Verified::new);
            let pair = verified.pair(chain, key, made.signatures);
            pairs.push(pair.map_err(|error| format!("certificate {number}: {error}"))?);
        }
        let leaf = pairs.first().and_then(|pair| pair.chain().first());
        let mut record = HostRecord::new(match made.key {
            Some(key) => pattern(b"key", key.as_bytes()),
            None => pattern(b"leaf", leaf.map_or(&[], |leaf| leaf.as_ref())),
        });
        record.tenant = Tenant::parse(made.tenant)?;
        if let Some(site) = made.site {
            let document = SiteDocument::parse(site).map_err(|error| format!("site: {error}"))?;
            record.site = Some(document.stored().clone());
        }
        let host = Arc::new(LoadedHost::own(record, pairs)?);
        let published = self.publish(&host)?;
        Ok(Arc::new(Served::own(host, published)))
    }
}

/// Returns the pattern of what a hook made, below a name that no host has (RFC 6761,
/// section 6.4). Patterns tell hosts apart in session tickets and rates: each key
/// has its own, the same on all servers.
fn pattern(kind: &[u8], text: &[u8]) -> HostPattern {
    let mut context = Context::new(&SHA256);
    for part in [kind, text] {
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let label = BASE32_NOPAD.encode(context.finish().as_ref());
    HostPattern::parse(&format!("{label}.hook.invalid")).expect("52 letters and digits, a name")
}

/// Pairs of different key types that a hook may give.
const MAX_PAIRS: usize = 2;
