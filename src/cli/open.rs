//! From the configuration to an open store.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow, bail};
use sekisho_certs::seal::{KeyError, KeyRing, KeySource};
use sekisho_certs::store::files::Files;
use sekisho_certs::store::http::{self, Http};
use sekisho_certs::store::limited::{Limited, Limits};
use sekisho_certs::store::redis::{Redis, RedisUrl};
use sekisho_certs::store::sealed::Sealed;
use sekisho_certs::store::sqlite::{Mode, Sqlite};
use sekisho_certs::{Catalog, Secret, Store};
use sekisho_server::admin::Token;
use sekisho_server::config::{Config, StoreUrl, TokenSource};
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
        StoreUrl::Http {
            template,
            token,
            ca,
        } => {
            let options = http::Options {
                token: token.as_ref().map(store_token).transpose()?,
                ca: ca.clone(),
                deadline: limits.deadline,
            };
            // Whoever opens the store drives its connections.
            let http = Http::new(template.clone(), &options, Handle::current())?;
            Ok(Opened {
                store: Arc::new(Limited::new(Arc::new(http), &limits)),
                catalog: None,
                shown: template.to_string(),
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

/// Waits for Redis, and says why it can't be reached.
pub(super) async fn reach(url: &RedisUrl) -> Result<()> {
    let redis = Redis::open(url, &Handle::current())?;
    redis.reach().await.with_context(|| format!("{url}"))
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
    match &config.store {
        StoreUrl::Sqlite(path) => Ok(path),
        StoreUrl::Files { pattern } => Err(not_ours(&format!("files:{pattern}"))),
        StoreUrl::Redis(url) => Err(not_ours(&url.to_string())),
        StoreUrl::Http { template, .. } => Err(not_ours(&template.to_string())),
    }
}

fn not_ours(shown: &str) -> anyhow::Error {
    anyhow!(
        "the store {shown} is written by others and can't be listed or changed here; \
         commands work on sqlite: stores"
    )
}

/// What each request to the store carries. Others may have made it, and they
/// make long ones.
fn store_token(source: &TokenSource) -> Result<Secret> {
    let text = source.read(2 * MOST_TOKEN).context("[store] token")?;
    let token = text.trim();
    let is_one = (1..=MOST_TOKEN).contains(&token.len())
        && token.bytes().all(|byte| byte.is_ascii_graphic());
    if !is_one {
        bail!("[store] token: {source}: a token has 1 to {MOST_TOKEN} characters of visible ASCII");
    }
    Ok(Secret::new(token.as_bytes().to_vec()))
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

/// What servers take as one field of a request's head.
const MOST_TOKEN: usize = 8192;
