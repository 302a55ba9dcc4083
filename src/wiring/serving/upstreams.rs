//! Settings of the reverse proxy that depend on the store and the system.

use aws_lc_rs::digest::{SHA256, digest};
use rustls::RootCertStore;
use sekisho_server::LoopId;

use crate::config::Config;
use crate::wiring::open::Opened;

/// Returns the name of the servers of this store in `CDN-Loop`: all that share a
/// catalog have one, or a store's URL where it is no catalog.
pub(super) async fn loop_id(config: &Config, opened: &Opened) -> LoopId {
    let known = opened.start.as_ref().map(|start| start.catalog);
    let catalog = match (known, &opened.catalog) {
        (None, Some(sealer)) => sealer.catalog().id().await.ok(),
        (known, _) => known,
    };
    // Hashed: the catalog's id itself is of no use to upstreams.
    LoopId::new(match catalog {
        Some(catalog) => hashed(&catalog.0),
        None => hashed(config.store.url.to_string().as_bytes()),
    })
}

/// Reads the authorities that the system trusts, for upstreams with TLS.
pub(super) fn roots() -> Result<RootCertStore, String> {
    sekisho_https::roots::load(None, "`ca` of the upstream")
}

fn hashed(text: &[u8]) -> [u8; 16] {
    let hash = digest(&SHA256, text);
    *hash.as_ref().first_chunk().expect("SHA-256 has 32 bytes")
}
