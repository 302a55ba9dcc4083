//! Opens the store of the configuration.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, anyhow};
use sekisho_certs::metrics::Counter;
use sekisho_certs::seal::{KeyError, KeyRing, KeySource, Keys, Sealer};
use sekisho_certs::{Catalog, Challenges};
use sekisho_server::admin::{MAX_TOKEN, Token};
use sekisho_stores::disk_cache::{DiskCache, StartState};
use sekisho_stores::own_file::of_database;
use sekisho_stores::redis_cache::RedisCache;
use sekisho_stores::tiers::Tiers;
use sekisho_stores::{Mode, OpenStore, Options, Url};
use tokio::runtime::{Builder, Handle, Runtime};

use crate::config::Config;
use crate::terminal::configuration;
use crate::terminal::failure::Result;
use crate::wiring::owner::{Folder, User};

pub(crate) use caches::{IGNORED, connect as connect_cache, ignores_redis};
pub(crate) use issuance::issuer;
pub(crate) use serving::{Disk, lookup, serving};

pub(crate) mod access_log;
mod caches;
mod issuance;
mod serving;

/// Open store, with its caches.
pub(crate) struct Opened {
    pub(crate) store: Arc<Tiers>,
    /// Connections that the store gave up since a lookup hung on them.
    pub(crate) retired: Counter,
    /// Sealer of the store, if it is a catalog.
    pub(crate) catalog: Option<Sealer>,
    /// Answers to challenges of a catalog, whoever orders.
    pub(crate) challenges: Option<Arc<Challenges>>,
    /// The Redis cache.
    pub(crate) redis: Option<Arc<RedisCache>>,
    /// The disk cache.
    pub(crate) disk: Option<Arc<DiskCache>>,
    /// Cached start state, if the catalog is unavailable.
    pub(crate) start: Option<StartState>,
}

/// Makes the runtime of one command.
pub(crate) fn runtime() -> Result<Runtime> {
    let runtime = Builder::new_current_thread().enable_all().build();
    runtime.context("the runtime could not be started")
}

/// Opens the existing catalog of the configuration for a command, with its
/// keys.
pub(crate) async fn existing(config: Option<&Path>) -> Result<Sealer> {
    sealed(&configuration::load(config)?).await
}

/// Opens the catalog of this configuration, with its keys.
pub(crate) async fn sealed(config: &Config) -> Result<Sealer> {
    let sealer = unopened(config).await?;
    sealer.ensure_open().await?;
    Ok(sealer)
}

/// Connects to the catalog of this configuration, even if the keys don't open
/// it.
pub(crate) async fn unopened(config: &Config) -> Result<Sealer> {
    let catalog = catalog(config, Mode::Existing)?;
    // A missing catalog is reported before its missing key.
    catalog.id().await?;
    Ok(Sealer::unopened(catalog, keys(config)?))
}

/// Opens the catalog; a missing one is created, with its master key.
pub(crate) async fn create(config: &Config) -> Result<Sealer> {
    let (sealer, is_new) = create_under(config, KeyRing::first).await?;
    if is_new {
        tell_created(&config.store.url);
    }
    Ok(sealer)
}

/// Opens the catalog of this configuration if there is one.
pub(crate) async fn if_there(config: &Config) -> Result<Option<Sealer>> {
    let is_there = sekisho_stores::exists(catalog_url(config)?, &Handle::current()).await?;
    match is_there {
        true => Ok(Some(sealed(config).await?)),
        false => Ok(None),
    }
}

/// Says that a command has made a store.
pub(crate) fn tell_created(url: &Url) {
    let file = url.database().map(|path| path.display().to_string());
    let shown = file.unwrap_or_else(|| url.to_string());
    eprintln!("created the store {shown}");
}

/// Opens the catalog. A new one is sealed under the key that `choose` picks of
/// the ring. Tells whether it is new.
pub(crate) async fn create_under(
    config: &Config,
    choose: impl FnOnce(&KeyRing) -> u32,
) -> Result<(Sealer, bool)> {
    let url = catalog_url(config)?;
    let is_there = sekisho_stores::exists(url, &Handle::current()).await?;
    let others = match is_there {
        true => Vec::new(),
        false => folders_of_others(config)?,
    };
    // The key comes first: after a crash here, the next run finds a key and no
    // store, and continues.
    let keys = match is_there {
        true => keys(config)?,
        false => new_keys(config)?,
    };
    let catalog = catalog(config, Mode::Create)?;
    let key = choose(&keys.ring());
    let sealer = Sealer::create_under(catalog, keys, key).await?;
    for (folder, owner) in &others {
        folder.give_to(owner)?;
    }
    Ok((sealer, !is_there))
}

/// Returns the folders of the store's files and of the key's that belong to another user
/// than root, who makes them: a server of that user would not be able to open them.
fn folders_of_others(config: &Config) -> Result<Vec<(Folder, User)>> {
    let mut folders = Vec::new();
    let mut add = |path: &Path, files| {
        let folder = path.parent().unwrap_or(Path::new("/"));
        folders.extend(Folder::of_another(folder, files)?);
        anyhow::Ok(())
    };
    if let Some(store) = config.store.url.database() {
        add(store, of_database(store).to_vec())?;
    }
    if let KeySource::File(path) = source(config)? {
        add(path, vec![path.clone()])?;
    }
    Ok(folders)
}

/// Opens the catalog of the configuration. The current runtime drives its
/// connections.
fn catalog(config: &Config, mode: Mode) -> Result<Arc<dyn Catalog>> {
    let options = Options {
        mode,
        ..Options::default()
    };
    match sekisho_stores::open(catalog_url(config)?, &options, &Handle::current())? {
        OpenStore::Catalog(catalog) => Ok(catalog),
        OpenStore::Plain(_) => Err(no_catalog(&config.store.url)),
    }
}

/// Returns the URL of the store if commands can list and change it.
pub(crate) fn catalog_url(config: &Config) -> Result<&Url> {
    let url = &config.store.url;
    url.is_catalog()
        .then_some(url)
        .ok_or_else(|| no_catalog(url))
}

fn no_catalog(store: &Url) -> anyhow::Error {
    anyhow!(
        "the store {store} is written by others and can't be listed or changed here; \
         commands work on sqlite: and postgres:// stores"
    )
}

/// Reads the token of the admin listener; None without a listener or without a
/// token.
pub(crate) fn admin_token(config: &Config) -> Result<Option<Token>> {
    let admin = config.listen.admin.as_ref();
    let source = admin.and(config.listen.admin_token.as_ref());
    let Some(source) = source else {
        return Ok(None);
    };
    // Twice the length detects a text that is too long, without reallocating
    // the secret.
    let text = source.read(2 * MAX_TOKEN).context("[listen] admin_token")?;
    let token = Token::parse(&text)
        .map_err(|problem| anyhow!("[listen] admin_token: {source}: {problem}"))?;
    Ok(Some(token))
}

fn keys(config: &Config) -> Result<Keys> {
    Ok(Keys::load(source(config)?)?)
}

/// Loads the keys of a store that will be created. A missing key file is
/// created, an existing one is used.
fn new_keys(config: &Config) -> Result<Keys> {
    let KeySource::File(path) = source(config)? else {
        return keys(config);
    };
    match KeyRing::create_file(path) {
        Ok(_) => {
            eprintln!(
                "created the master key {}; back it up apart from the store",
                path.display()
            );
            keys(config)
        }
        Err(KeyError::Exists(_)) => keys(config),
        Err(error) => Err(error.into()),
    }
}

/// Returns the source of the configuration's master keys.
pub(crate) fn source(config: &Config) -> Result<&KeySource> {
    config.keys.as_ref().ok_or_else(|| {
        anyhow!(
            "{}: [keys] master is missing; this store seals private keys under it, \
             as in master = \"file:master.key\"",
            config.file.display()
        )
    })
}
