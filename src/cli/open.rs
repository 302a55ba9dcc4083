//! From the configuration to an open store.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use sekisho_certs::store::sqlite::{Mode, Sqlite};
use sekisho_certs::{Catalog, Store};
use sekisho_server::config::{self, Config, StoreUrl};
use tokio::runtime::{Builder, Runtime};

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

pub(super) fn open(config: &Config) -> Result<Opened> {
    let _ = config;
    bail!("")
}
/// The catalog of the configuration, which must be there.
pub(super) fn existing(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    let config = Config::load(config)?;
    open(&config)?.catalog.ok_or_else(|| no_catalog(&config))
}

/// The same; one that is missing is created, with its master key.
pub(super) fn created(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    create(&Config::load(config)?)
}

pub(super) fn create(config: &Config) -> Result<Arc<dyn Catalog>> {
    let _ = config;
    bail!("")
}
fn no_catalog(config: &Config) -> anyhow::Error {
    let _ = config;
    anyhow::anyhow!("")
}
