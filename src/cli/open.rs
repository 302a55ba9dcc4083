//! From the configuration to an open store.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Context, bail};
use sekisho_certs::Catalog;


use sekisho_server::config::{Config, StoreUrl};
use tokio::runtime::{Builder, Runtime};

use crate::cli::failure::Result;

/// Drives one command.
pub(super) fn runtime() -> Result<Runtime> {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .context("the runtime could not be started")
}

/// The catalog of the configuration, which must be there.
pub(super) fn existing(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    catalog(&Config::load(config)?)
}

/// The same; one that is missing is created, with its master key.
pub(super) fn created(config: Option<&Path>) -> Result<Arc<dyn Catalog>> {
    create(&Config::load(config)?)
}

pub(super) fn catalog(config: &Config) -> Result<Arc<dyn Catalog>> {
    let _ = config;
    bail!("")
}

pub(super) fn create(config: &Config) -> Result<Arc<dyn Catalog>> {
    let _ = config;
    bail!("")
}
