//! Opens the store with its caches as a server does, and makes the lookup on it.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use anyhow::{Context, bail};
use sekisho_certs::metrics::Counter;
use sekisho_certs::seal::Keys;
use sekisho_certs::{
    Catalog, Challenges, Clock, Lookup, LookupSettings, Obtain, Sealer, Secret, Store, StoreError,
};
use sekisho_server::{Publisher, VirtualHost};
use sekisho_stores::disk_cache::StartState;
use sekisho_stores::tiers::{STORE_TIMEOUT, Tiers};
use sekisho_stores::{OpenStore, Options};
use tokio::runtime::Handle;

use super::{Opened, caches, keys};
use crate::config::{Config, SecretSource};
use crate::terminal::failure::Result;

/// Disk cache of a store.
#[derive(Debug)]
pub(crate) enum Disk {
    /// None is opened.
    Without,
    /// Opened as configured, with the lock of the process before if that gave one.
    With(Option<OwnedFd>),
}

/// Opens the store with its caches. The current runtime drives its connections.
pub(crate) async fn serving(config: &Config, disk: Disk) -> Result<Opened> {
    let retired = Counter::default();
    let options = Options {
        token: config.store.token.as_ref().map(store_token).transpose()?,
        ca: config.store.ca.clone(),
        // After this time, the client has given up its handshake.
        timeout: Some(STORE_TIMEOUT),
        retired: retired.clone(),
        ..Options::default()
    };
    match sekisho_stores::open(&config.store.url, &options, &Handle::current())? {
        OpenStore::Catalog(catalog) => with_caches(config, catalog, retired, disk).await,
        OpenStore::Plain(store) => {
            let (tiers, disk) = caches::plain(config, store, disk);
            Ok(Opened {
                store: Arc::new(tiers),
                retired,
                catalog: None,
                challenges: None,
                redis: None,
                disk,
                start: None,
            })
        }
    }
}

/// Opens a catalog with its caches. One in the network may be out of reach.
async fn with_caches(
    config: &Config,
    catalog: Arc<dyn Catalog>,
    retired: Counter,
    disk: Disk,
) -> Result<Opened> {
    let keys = keys_of(config, catalog.as_ref()).await?;
    let sealer = Sealer::unopened(catalog, keys);
    let disk = caches::disk(config, disk, sealer.seen());
    let start = if config.store.url.is_local() {
        sealer.ensure_open().await?;
        None
    } else {
        // The start state must be read before the first store call, which may
        // change it.
        let start = disk.as_ref().and_then(|disk| disk.start_state());
        open_or_start_cached(&sealer, start).await?
    };
    let redis = caches::redis(config, &sealer)?;
    if let Some(disk) = &disk {
        disk.keep_up(Arc::clone(sealer.catalog()), &Handle::current());
    }
    let tiers = Tiers::catalog(sealer.clone())
        .redis(redis.clone())
        .disk(disk.clone());
    let store = Arc::new(tiers);
    let challenges = Challenges::of(Arc::clone(&store) as _, Clock::System);
    Ok(Opened {
        store,
        retired,
        catalog: Some(sealer),
        challenges: Some(Arc::new(challenges)),
        redis,
        disk,
        start,
    })
}

/// Makes the lookup of an open store.
pub(crate) fn lookup(
    config: &Config,
    store: Arc<dyn Store>,
    publisher: &Arc<Publisher>,
    obtain: Arc<dyn Obtain>,
) -> Arc<Lookup<VirtualHost>> {
    let settings = LookupSettings {
        memory: config.cache.memory - config.hook_memory(),
        fresh: config.cache.fresh,
        absent: config.cache.absent,
    };
    let publisher = Arc::clone(publisher);
    let publish = move |host: &Arc<_>| publisher.publish(host);
    Lookup::new(store, &settings, obtain, publish)
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
