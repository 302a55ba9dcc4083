//! From the configuration to an open store.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sekisho_certs::seal::{KeyError, KeyRing, KeySource};
use sekisho_certs::store::files::Files;
use sekisho_certs::store::limited::{Limited, Limits};
use sekisho_certs::store::redis::Redis;
use sekisho_certs::store::sealed::Sealed;
use sekisho_certs::store::sqlite::{Mode, Sqlite};
use sekisho_certs::{Catalog, Store};
use sekisho_server::admin::Token;
use sekisho_server::config::{Config, StoreUrl};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::cli::failure::Result;

/// A store that is ready to be asked.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Store>,
    /// The same, if it can also be written.
    pub(crate) catalog: Option<Arc<dyn Catalog>>,
    /// As the operator knows it.
    pub(crate) shown: String,
}

/// Drives one command.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime could not be started")
}

/// The store of the configuration for a server: each call bounded, so that a
/// stuck store holds up only what it alone can answer. A remote one is not
/// waited for; its connections belong to the runtime that drives this.
pub(super) async fn serving(config: &Config) -> Result<Opened> {
    let limits = Limits::default();
    match &config.store {
        StoreUrl::Sqlite(path) => {
            let sqlite = Arc::new(Sqlite::open(path, Mode::Existing)?);
            let catalog = sealed(config, Arc::new(Limited::new(sqlite, &limits))).await?;
            Ok(Opened {
                store: Arc::clone(&catalog) as Arc<dyn Store>,
                catalog: Some(catalog),
                shown: format!("sqlite:{}", path.display()),
            })
        }
        StoreUrl::Files { pattern } => {
            // The configuration has made its paths absolute.
            let files = Arc::new(Files::new(pattern, Path::new("/"))?);
            Ok(Opened {
                store: Arc::new(Limited::new(files, &limits)),
                catalog: None,
                shown: format!("files:{pattern}"),
            })
        }
        StoreUrl::Redis(url) => {
            let redis = Arc::new(Redis::open(url, &Handle::current())?);
            Ok(Opened {
                store: Arc::new(Limited::new(redis, &limits)),
                catalog: None,
                shown: url.to_string(),
            })
        }
    }
}

/// Waits for a remote store, and says why it can't be reached.
pub(super) async fn reach(config: &Config) -> Result<()> {
    match &config.store {
        StoreUrl::Sqlite(_) | StoreUrl::Files { .. } => Ok(()),
        StoreUrl::Redis(url) => {
            let redis = Redis::open(url, &Handle::current())?;
            redis.reach().await.with_context(|| format!("{url}"))
        }
    }
}

/// The catalog of the configuration for a command; it must be there.
pub(super) async fn existing(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    let config = Config::load(config)?;
    let sqlite = Sqlite::open(sqlite_path(&config)?, Mode::Existing)?;
    sealed(&config, Arc::new(sqlite)).await
}

/// The same; one that is missing is created, with its master key.
pub(super) async fn created(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    create(&Config::load(config)?).await
}

pub(super) async fn create(config: &Config) -> Result<Arc<dyn Catalog>> {
    let path = sqlite_path(config)?;
    let is_new = !path
        .try_exists()
        .with_context(|| path.display().to_string())?;
    // The key first: broken off here, the next run finds a key and no store.
    let ring = if is_new {
        new_ring(config)?
    } else {
        ring(config)?
    };
    let sqlite = Sqlite::open(path, Mode::Create)?;
    let catalog = Sealed::create(Arc::new(sqlite), ring).await?;
    if is_new {
        eprintln!("created the store {}", path.display());
    }
    Ok(Arc::new(catalog))
}

async fn sealed(config: &Config, catalog: Arc<dyn Catalog>) -> Result<Arc<dyn Catalog>> {
    Ok(Arc::new(Sealed::open(catalog, ring(config)?).await?))
}

fn sqlite_path(config: &Config) -> Result<&Path> {
    let plain = match &config.store {
        StoreUrl::Sqlite(path) => return Ok(path),
        StoreUrl::Files { pattern } => format!("files:{pattern}"),
        StoreUrl::Redis(url) => url.to_string(),
    };
    Err(anyhow!(
        "the store {plain} is written by others and can't be listed or changed here; \
         commands work on sqlite: stores"
    ))
}

/// What requests to the admin listener must carry; none if there is no such
/// listener, or one without a token.
pub(super) fn admin_token(config: &Config) -> Result<Option<Token>> {
    let source = config.listen.admin.and(config.listen.admin_token.as_ref());
    source
        .map(|source| Token::load(source).context("[listen] admin_token"))
        .transpose()
}

fn ring(config: &Config) -> Result<KeyRing> {
    Ok(source(config)?.load()?)
}

/// For a store that is to be made: a key file that is missing is made too. One
/// that is there is taken, whether an earlier run or the operator made it.
fn new_ring(config: &Config) -> Result<KeyRing> {
    let KeySource::File(path) = source(config)? else {
        return ring(config);
    };
    match KeyRing::create_file(path) {
        Ok(ring) => {
            eprintln!(
                "created the master key {}; back it up apart from the store",
                path.display()
            );
            Ok(ring)
        }
        Err(KeyError::Exists(_)) => ring(config),
        Err(error) => Err(error.into()),
    }
}

fn source(config: &Config) -> Result<&KeySource> {
    config.keys.as_ref().ok_or_else(|| {
        anyhow!(
            "{}: [keys] master is missing; this store seals private keys under it, \
             as in master = \"file:master.key\"",
            config.file.display()
        )
    })
}
