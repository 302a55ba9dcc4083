//! Redis as a level before a catalog, where the configuration names one.

use std::sync::Arc;

use anyhow::Context;
use sekisho_certs::Catalog;
use sekisho_server::config::Config;
use sekisho_stores::layered::{Counts, Layered, Waits};
use sekisho_stores::redis::RedisUrl;
use sekisho_stores::redis::level::Level;
use tokio::runtime::Handle;

use crate::cli::failure::Result;

/// A catalog as look-ups ask it, and what the level before it counts.
pub(super) type Inner = (Arc<dyn Catalog>, Option<Counts>);

/// Puts the level before a catalog. The runtime that runs this drives it.
pub(super) fn before(config: &Config, catalog: Arc<dyn Catalog>) -> Result<Inner> {
    let Some(url) = &config.level else {
        return Ok((catalog, None));
    };
    let level = Level::open(url, &Handle::current()).context("[cache] redis")?;
    let layered = Layered::new(level, catalog, Waits::default(), &Handle::current());
    let counts = layered.counts();
    Ok((Arc::new(layered), Some(counts)))
}

/// Waits for the level, and says why it can't be reached.
pub(in crate::cli) async fn reach(url: &RedisUrl) -> Result<()> {
    let level = Level::open(url, &Handle::current())?;
    level
        .reach()
        .await
        .with_context(|| format!("[cache] redis {url}"))
}
