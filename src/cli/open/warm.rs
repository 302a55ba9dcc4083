//! Copies on disk for a start while the store is down. Nothing that is wrong
//! with them keeps a server from serving: it goes without.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sekisho_certs::seal::{KeyError, KeyRing, KeySource};
use sekisho_certs::{Catalog, Clock, Store};
use sekisho_server::config::Config;
use sekisho_server::tickets::DOCUMENT_KIND;
use sekisho_stores::warm::{self, Copies, Warm, WarmPlain};

/// Opens them, where the configuration has them.
pub(in crate::cli) fn copies(config: &Config) -> Option<Copies> {
    let disk = config.cache.disk.as_ref()?;
    let opened = Copies::open(&warm::Options {
        path: disk.path.clone(),
        size: disk.size as u64,
        store: config.store.to_string(),
        documents: vec![DOCUMENT_KIND],
        clock: Clock::System,
    });
    opened
        .inspect_err(|error| without(error, "[cache] disk names another file, or \"off\""))
        .ok()
}

/// Beneath what opens secrets: the copies are sealed as the catalog's are.
pub(super) fn catalog(inner: Arc<dyn Catalog>, copies: Option<&Copies>) -> Arc<dyn Catalog> {
    match copies {
        Some(copies) => Arc::new(Warm::new(inner, copies.clone())),
        None => inner,
    }
}

/// Copies of plain keys are sealed under the master key, or under one beside
/// them.
pub(super) fn plain(
    config: &Config,
    inner: Arc<dyn Store>,
    copies: Option<&Copies>,
) -> Arc<dyn Store> {
    let Some((copies, disk)) = copies.zip(config.cache.disk.as_ref()) else {
        return inner;
    };
    let ring = match &config.keys {
        Some(source) => source.load(),
        None => own_ring(&disk.path),
    };
    match ring {
        Ok(ring) => Arc::new(WarmPlain::new(inner, copies.clone(), ring)),
        Err(error) => {
            without(&error, "copies are sealed under it");
            inner
        }
    }
}

/// The key beside the file, made with the first start.
fn own_ring(file: &Path) -> Result<KeyRing, KeyError> {
    let mut name = file.as_os_str().to_owned();
    name.push(".key");
    let path = PathBuf::from(name);
    match KeyRing::create_file(&path) {
        Err(KeyError::Exists(_)) => KeySource::File(path).load(),
        made => made,
    }
}

fn without(error: &dyn std::fmt::Display, hint: &str) {
    tracing::warn!(
        %error,
        hint,
        "this server could not start while the store is down: no copies are kept on disk"
    );
}
