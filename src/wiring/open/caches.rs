//! Opens the Redis cache and the disk cache of the configuration.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context;
use sekisho_certs::Seen;
use sekisho_certs::seal::{KeyError, KeyRing, KeySource, Sealer};
use sekisho_certs::{Clock, Store};
use sekisho_server::tickets::DOCUMENT_KIND;
use sekisho_stores::disk_cache::{self, DiskCache};
use sekisho_stores::own_file;
use sekisho_stores::redis::RedisUrl;
use sekisho_stores::redis_cache::{CacheServer, RedisCache, Timeouts};
use sekisho_stores::tiers::Tiers;
use tokio::runtime::Handle;

use super::Disk;
use crate::config::Config;
use crate::terminal::failure::Result;

/// Opens the Redis cache of a catalog. The current runtime drives it.
pub(super) fn redis(config: &Config, sealer: &Sealer) -> Result<Option<Arc<RedisCache>>> {
    let Some(url) = &config.redis_cache else {
        return Ok(None);
    };
    if ignores_redis(config) {
        tracing::warn!(hint = "remove [cache] redis", "{IGNORED}");
        return Ok(None);
    }
    let runtime = Handle::current();
    let server = CacheServer::open(url, &runtime).context("[cache] redis")?;
    let (catalog, seen) = (Arc::clone(sealer.catalog()), Arc::clone(sealer.seen()));
    let cache = RedisCache::new(server, catalog, seen, Timeouts::default(), &runtime);
    Ok(Some(Arc::new(cache)))
}

/// Returns whether `[cache] redis` is set but useless: a read of SQLite takes 5
/// µs, less than a round trip to Redis.
pub(crate) fn ignores_redis(config: &Config) -> bool {
    config.redis_cache.is_some() && config.store.url.is_local()
}

/// Warning of `serve` and `check` about an ignored Redis cache.
pub(crate) const IGNORED: &str = "Redis cache not used: reading sqlite: takes less time";

/// Waits until Redis answers. The error says why it does not.
pub(crate) async fn connect(url: &RedisUrl) -> Result<()> {
    let server = CacheServer::open(url, &Handle::current())?;
    server
        .reach()
        .await
        .with_context(|| format!("[cache] redis {url}"))
}

/// Opens the disk cache. If it can't be opened, the server serves without it.
pub(super) fn disk(config: &Config, wanted: Disk, seen: &Arc<Seen>) -> Option<Arc<DiskCache>> {
    let disk = config.cache.disk.as_ref()?;
    let Disk::With(lock) = wanted else {
        return None;
    };
    let options = disk_cache::Options {
        path: disk.path.clone(),
        size: disk.size as u64,
        store: config.store.url.to_string(),
        documents: vec![DOCUMENT_KIND],
        clock: Clock::System,
    };
    let (seen, runtime) = (Arc::clone(seen), Handle::current());
    let opened = match lock {
        Some(lock) => DiskCache::inherit(&options, lock, seen, &runtime),
        None => DiskCache::open(&options, seen, &runtime),
    };
    opened
        .inspect_err(|error| without(error, "[cache] disk names another file, or \"off\""))
        .ok()
        .map(Arc::new)
}

/// Builds the tiers of a plain store with its disk cache. The cached keys are
/// sealed under the master key, or under a key beside the file.
pub(super) fn plain(
    config: &Config,
    store: Arc<dyn Store>,
    wanted: Disk,
) -> (Tiers, Option<Arc<DiskCache>>) {
    let file = config.cache.disk.as_ref();
    let cache = disk(config, wanted, &Arc::default());
    let Some((cache, file)) = cache.zip(file) else {
        return (Tiers::plain(store), None);
    };
    let ring = match &config.keys {
        Some(source) => source.load(),
        None => own_ring(&file.path),
    };
    match ring {
        Ok(ring) => {
            let tiers = Tiers::plain_with_disk(store, Arc::clone(&cache), ring);
            (tiers, Some(cache))
        }
        Err(error) => {
            without(&error, "copies are sealed under it");
            (Tiers::plain(store), None)
        }
    }
}

/// Loads the key beside the disk cache; the first start creates it.
fn own_ring(file: &Path) -> Result<KeyRing, KeyError> {
    let path = own_file::beside(file, ".key");
    match KeyRing::create_file(&path) {
        Err(KeyError::Exists(_)) => KeySource::File(path).load(),
        made => made,
    }
}

fn without(error: &dyn std::fmt::Display, hint: &str) {
    tracing::warn!(
        %error,
        hint,
        "disk cache disabled: a restart during a store outage would serve nothing"
    );
}
