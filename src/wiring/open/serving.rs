//! Opens the store with its caches for `serve`.

use std::sync::Arc;

use anyhow::{Context, bail};
use sekisho_certs::metrics::Counter;
use sekisho_certs::seal::Keys;
use sekisho_certs::{Catalog, Sealer, Secret, StoreError};
use sekisho_stores::disk_cache::{DiskCache, StartState};
use sekisho_stores::redis_cache::RedisCache;
use sekisho_stores::tiers::{STORE_TIMEOUT, Tiers};
use sekisho_stores::{OpenStore, Options};
use tokio::runtime::Handle;

use super::{Opened, caches, keys};
use crate::config::{Config, SecretSource};
use crate::terminal::failure::Result;

/// Opens the store with its caches; the disk cache only `with_disk`. The
/// current runtime drives its connections.
pub(crate) async fn serving(config: &Config, with_disk: bool) -> Result<Opened> {
    let retired = Counter::default();
    let opened = counting(config, with_disk, retired.clone()).await?;
    Ok(Opened { retired, ..opened })
}

async fn counting(config: &Config, with_disk: bool, retired: Counter) -> Result<Opened> {
    let url = &config.store.url;
    let options = Options {
        token: config.store.token.as_ref().map(store_token).transpose()?,
        ca: config.store.ca.clone(),
        // After this time, the client has given up its handshake.
        timeout: Some(STORE_TIMEOUT),
        retired,
        ..Options::default()
    };
    let catalog = match sekisho_stores::open(url, &options, &Handle::current())? {
        OpenStore::Catalog(catalog) => catalog,
        OpenStore::Plain(store) => {
            let (tiers, disk) = caches::plain(config, store, with_disk);
            return Ok(opened(config, tiers, None, None, disk, None));
        }
    };
    let keys = keys_of(config, catalog.as_ref()).await?;
    let sealer = Sealer::unopened(catalog, keys);
    if url.is_local() {
        sealer.ensure_open().await?;
        return with_caches(config, sealer, None, None);
    }
    let disk = with_disk
        .then(|| caches::disk(config, sealer.seen()))
        .flatten();
    // The start state must be read before the first store call, which may
    // change it.
    let start = disk.as_ref().and_then(|disk| disk.start_state());
    let start = open_or_start_cached(&sealer, start).await?;
    with_caches(config, sealer, disk, start)
}

fn with_caches(
    config: &Config,
    sealer: Sealer,
    disk: Option<Arc<DiskCache>>,
    start: Option<StartState>,
) -> Result<Opened> {
    let redis = caches::redis(config, &sealer)?;
    if let Some(disk) = &disk {
        disk.keep_up(Arc::clone(sealer.catalog()), &Handle::current());
    }
    let tiers = Tiers::catalog(sealer.clone())
        .redis(redis.clone())
        .disk(disk.clone());
    Ok(opened(config, tiers, Some(sealer), redis, disk, start))
}

fn opened(
    config: &Config,
    tiers: Tiers,
    catalog: Option<Sealer>,
    redis: Option<Arc<RedisCache>>,
    disk: Option<Arc<DiskCache>>,
    start: Option<StartState>,
) -> Opened {
    Opened {
        retired: Counter::default(),
        store: Arc::new(tiers),
        catalog,
        redis,
        disk,
        start,
        shown: config.store.url.to_string(),
    }
}

/// Loads the master keys. A missing store is reported before its missing key.
async fn keys_of(config: &Config, catalog: &dyn Catalog) -> Result<Keys> {
    match keys(config) {
        Ok(keys) => Ok(keys),
        Err(error) => {
            away(catalog.id().await)?;
            Err(error)
        }
    }
}

/// Opens a remote catalog, which may be unavailable at the start. The server
/// then serves its cached state, and everything once the store is back.
/// Permanent errors are returned. Returns the cached state to use.
async fn open_or_start_cached(
    sealer: &Sealer,
    start: Option<StartState>,
) -> Result<Option<StartState>> {
    let mut away = away(sealer.catalog().id().await)?;
    if away.is_none() {
        away = self::away(sealer.ensure_open().await)?;
    }
    let Some(error) = away else { return Ok(None) };
    tracing::warn!(%error, "the store is out of reach, it is tried again with each call");
    if let Some(start) = &start {
        sealer.open_with(start.catalog, start.check.clone()).await?;
    }
    Ok(start)
}

/// Separates retryable errors from permanent ones.
fn away<T>(called: Result<T, StoreError>) -> Result<Option<StoreError>, StoreError> {
    match called {
        Err(error) if error.is_retryable() => Ok(Some(error)),
        other => other.map(|_| None),
    }
}

/// Reads the bearer token of an endpoint. Its issuer chose the length: up to
/// [`MAX_TOKEN`].
fn store_token(source: &SecretSource) -> Result<Secret> {
    let text = source.read(2 * MAX_TOKEN).context("[store] token")?;
    let token = text.trim();
    let is_one =
        (1..=MAX_TOKEN).contains(&token.len()) && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_one {
        bail!("[store] token: {source}: a token has 1 to {MAX_TOKEN} characters of visible ASCII");
    }
    Ok(Secret::new(token.as_bytes().to_vec()))
}

/// Bytes that most servers accept as one header field.
const MAX_TOKEN: usize = 8192;
