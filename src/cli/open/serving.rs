//! Stores as a server asks them: each call bounded, so that a stuck store holds
//! up only what it alone can answer.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use sekisho_certs::{Catalog, ChangeLog, Sealer, Secret, Store, StoreError};
use sekisho_server::config::{Config, StoreUrl, TokenSource};
use sekisho_stores::catalog_store::CatalogStore;
use sekisho_stores::files::Files;
use sekisho_stores::http::{self, Http, Template};
use sekisho_stores::layered::Counts;
use sekisho_stores::limited::{Limited, Limits};
use sekisho_stores::postgres;
use sekisho_stores::redis::{Redis, RedisUrl};
use sekisho_stores::sqlite::{self, Sqlite};
use sekisho_stores::warm::Copies;
use tokio::runtime::Handle;

use super::level::{self, Inner};
use super::{Opened, keys, postgres_at, warm};
use crate::cli::failure::Result;

/// The store of the configuration, with copies that stand in for it while it
/// is down. The runtime that runs this drives its connections.
pub(in crate::cli) async fn serving(config: &Config, warm: Option<Copies>) -> Result<Opened> {
    let copies = warm.as_ref();
    let limits = Limits::default();
    let (store, catalog, level) = match &config.store {
        StoreUrl::Sqlite(path) => {
            let (inner, level) = embedded(config, path, &limits)?;
            both(Sealer::open(inner, keys(config)?).await?, level)
        }
        StoreUrl::Postgres(url) => {
            let (inner, level) = database(config, url, &limits)?;
            let inner = warm::catalog(inner, copies);
            both(within_reach_or_later(config, inner).await?, level)
        }
        StoreUrl::Files { pattern } => {
            // The configuration has made its paths absolute.
            let files = Arc::new(Files::new(pattern, Path::new("/"))?);
            plain(Arc::new(Limited::new(files, &limits)))
        }
        StoreUrl::Http {
            template,
            token,
            ca,
        } => {
            let http = Arc::new(endpoint(template, token.as_ref(), ca.clone(), &limits)?);
            let limited = Arc::new(Limited::new(http, &limits));
            plain(warm::plain(config, limited, copies))
        }
        StoreUrl::Redis(url) => {
            let redis = Arc::new(Redis::open(url, &Handle::current())?);
            let limited = Arc::new(Limited::new(redis, &limits));
            plain(warm::plain(config, limited, copies))
        }
    };
    Ok(Opened {
        store,
        catalog,
        level,
        warm,
        shown: config.store.to_string(),
    })
}

/// Waits for Redis, and says why it can't be reached.
pub(in crate::cli) async fn reach(url: &RedisUrl) -> Result<()> {
    let redis = Redis::open(url, &Handle::current())?;
    redis.reach().await.with_context(|| format!("{url}"))
}

/// A store, the log and the sealer of a catalog, and what the level before it
/// counts.
type Parts = (
    Arc<dyn Store>,
    Option<(Arc<dyn ChangeLog>, Sealer)>,
    Option<Counts>,
);

fn both(sealer: Sealer, level: Option<Counts>) -> Parts {
    let store = Arc::new(CatalogStore::new(sealer.clone()));
    let log = Arc::clone(&store) as Arc<dyn ChangeLog>;
    (store, Some((log, sealer)), level)
}

fn plain(store: Arc<dyn Store>) -> Parts {
    (store, None, None)
}

fn embedded(config: &Config, path: &Path, limits: &Limits) -> Result<Inner> {
    let sqlite = Arc::new(Sqlite::open(path, sqlite::Mode::Existing)?);
    level::before(config, Arc::new(Limited::new(sqlite, limits)))
}

fn database(config: &Config, url: &postgres::Url, limits: &Limits) -> Result<Inner> {
    // Who asked has gone by then.
    let waits = postgres::Options {
        connect: limits.deadline,
        read: limits.deadline,
        ..postgres::Options::default()
    };
    let catalog = Arc::new(postgres_at(url, postgres::Mode::Existing, &waits)?);
    level::before(config, Arc::new(Limited::new(catalog, limits)))
}

fn endpoint(
    template: &Template,
    token: Option<&TokenSource>,
    ca: Option<PathBuf>,
    limits: &Limits,
) -> Result<Http> {
    let options = http::Options {
        token: token.map(store_token).transpose()?,
        ca,
        deadline: limits.deadline,
    };
    Ok(Http::new(template.clone(), &options, Handle::current())?)
}

/// A store elsewhere may be down while a server starts, which then serves as
/// soon as it is back. What does not heal by itself is an error.
async fn within_reach_or_later(config: &Config, catalog: Arc<dyn Catalog>) -> Result<Sealer> {
    let mut away = away(catalog.id().await)?;
    let sealer = Sealer::unopened(catalog, keys(config)?);
    if away.is_none() {
        away = self::away(sealer.ensure_open().await)?;
    }
    if let Some(error) = away {
        tracing::warn!(%error, "the store is out of reach, it is tried again with each call");
    }
    Ok(sealer)
}

/// Takes aside the errors that heal by themselves.
fn away<T>(called: Result<T, StoreError>) -> Result<Option<StoreError>, StoreError> {
    match called {
        Err(error) if error.is_retryable() => Ok(Some(error)),
        other => other.map(|_| None),
    }
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

/// What servers take as one field of a request's head.
const MOST_TOKEN: usize = 8192;
