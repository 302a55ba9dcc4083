//! Opens the catalog of a URL, beside the servers on it.

use std::path::Path;
use std::sync::Arc;

use anyhow::{Result, anyhow, bail};
use sekisho_certs::Catalog;
use sekisho_stores::{OpenStore, Options, Url, open};
use tokio::runtime::Handle;

/// Opens a catalog that is there. The current runtime drives its connections.
pub fn open_catalog(url: &str) -> Result<Arc<dyn Catalog>> {
    let url = Url::parse(url, Path::new("/")).map_err(|why| anyhow!(why))?;
    match open(&url, &Options::default(), &Handle::current())? {
        OpenStore::Catalog(catalog) => Ok(catalog),
        OpenStore::Plain(_) => bail!("is no catalog"),
    }
}
