//! From a URL to an open store: what depends on its kind stands here.

// Without a feature, some of these calls need no runtime.
#![cfg_attr(
    not(all(feature = "http", feature = "postgres", feature = "redis")),
    allow(unused_variables)
)]

use std::sync::Arc;

use sekisho_certs::store::Result;
use sekisho_certs::{Catalog, HostName, Store, StoreError};
use tokio::runtime::Handle;

use crate::fault::unavailable;
use crate::files::Files;
#[cfg(feature = "http")]
use crate::http::{self, Http};
use crate::options::{Mode, Options};
#[cfg(feature = "postgres")]
use crate::postgres::{self, Postgres};
#[cfg(feature = "redis")]
use crate::redis::Redis;
use crate::sqlite::Sqlite;
use crate::upgrade::complete;
use crate::url::{Kind, Url};

/// An open store.
pub enum OpenStore {
    /// A catalog, whose keys are sealed.
    Catalog(Arc<dyn Catalog>),
    /// A store that others write, with plain keys.
    Plain(Arc<dyn Store>),
}

/// Opens a store. `runtime` drives its connections. A store that is reached
/// over a network need not be up.
///
/// # Errors
/// If a file is missing or can't be used, or an option does not fit; says which.
pub fn open(url: &Url, options: &Options, runtime: &Handle) -> Result<OpenStore> {
    Ok(match &url.0 {
        Kind::Sqlite(path) => OpenStore::Catalog(Arc::new(Sqlite::open(path, options.mode)?)),
        Kind::Files(pattern) => OpenStore::Plain(Arc::new(Files::new(pattern.clone())?)),
        #[cfg(feature = "postgres")]
        Kind::Postgres(url) => {
            let defaults = postgres::Options::default();
            let options = postgres::Options {
                mode: options.mode,
                connect: options.timeout.unwrap_or(defaults.connect),
                read: options.timeout.unwrap_or(defaults.read),
                retired: options.retired.clone(),
                ..defaults
            };
            OpenStore::Catalog(Arc::new(Postgres::new(url, &options, runtime)?))
        }
        #[cfg(feature = "http")]
        Kind::Http(template) => {
            let (template, runtime) = (template.clone(), runtime.clone());
            let http = Http::new(template, options, http::DEADLINE, runtime)?;
            OpenStore::Plain(Arc::new(http))
        }
        #[cfg(feature = "redis")]
        Kind::Redis(url) => OpenStore::Plain(Arc::new(Redis::open(url, runtime)?)),
    })
}

/// Tells whether a catalog of any version is there. Commands that create a
/// missing catalog ask first, since a new one needs a new master key.
///
/// # Errors
/// If that can't be told, or the store is no catalog.
pub async fn exists(url: &Url, runtime: &Handle) -> Result<bool> {
    match &url.0 {
        Kind::Sqlite(path) => path
            .try_exists()
            .map_err(|error| unavailable(format!("{}: {error}", path.display()))),
        #[cfg(feature = "postgres")]
        Kind::Postgres(url) => Postgres::is_there(url, runtime).await,
        Kind::Files(_) => Err(no_catalog(url)),
        #[cfg(feature = "http")]
        Kind::Http(_) => Err(no_catalog(url)),
        #[cfg(feature = "redis")]
        Kind::Redis(_) => Err(no_catalog(url)),
    }
}

/// Completes a catalog that an older program made, while servers serve: hosts get the names
/// by which lists find them below a domain, and lists their indexes. Says what it does. If it
/// is stopped, the next call goes on.
///
/// # Errors
/// If the store can't be reached or written, if another session builds the same index, or if
/// the store is no catalog.
pub async fn upgrade(url: &Url, runtime: &Handle, say: &mut dyn FnMut(String)) -> Result<()> {
    match &url.0 {
        Kind::Sqlite(path) => complete(&Sqlite::open(path, Mode::Existing)?, say).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres(url) => {
            let store = Postgres::new(url, &postgres::Options::default(), runtime)?;
            complete(&store, say).await
        }
        Kind::Files(_) => Err(no_catalog(url)),
        #[cfg(feature = "http")]
        Kind::Http(_) => Err(no_catalog(url)),
        #[cfg(feature = "redis")]
        Kind::Redis(_) => Err(no_catalog(url)),
    }
}

fn no_catalog(url: &Url) -> StoreError {
    StoreError::Refused(format!("{url} is no catalog").into())
}

/// Waits for a store that others write: it has a connection, or answers for a
/// name that nobody has. `sekisho check` asks; a catalog it asks for its log.
///
/// # Errors
/// Says why the store can't be reached.
pub async fn probe(url: &Url, store: &dyn Store, runtime: &Handle) -> Result<()> {
    match &url.0 {
        Kind::Sqlite(_) | Kind::Files(_) => find_nobody(store).await,
        #[cfg(feature = "postgres")]
        Kind::Postgres(_) => find_nobody(store).await,
        #[cfg(feature = "http")]
        Kind::Http(_) => find_nobody(store).await,
        #[cfg(feature = "redis")]
        Kind::Redis(url) => Redis::open(url, runtime)?.reach().await,
    }
}

async fn find_nobody(store: &dyn Store) -> Result<()> {
    let name = HostName::parse(NOBODY).expect("it is a name");
    store.find(&name).await.map(drop)
}

/// Under a domain that nobody can have (RFC 2606, section 2).
const NOBODY: &str = "sekisho-check.invalid";
