//! Parts of a hook that all workers share.

use std::fmt;
use std::sync::{Arc, Weak};

use sekisho_certs::LogLimiter;
use sekisho_certs::metrics::{Collector, DescriptorEncoder, gauge};

use crate::cache::Cache;
use crate::compile::Program;
use crate::files::Folders;
use crate::flight::Flight;
use crate::imports::Imports;
use crate::metrics::Metrics;
use crate::region::Region;
use crate::settings::Settings;

/// Hook without the states of the workers.
pub(crate) struct Shared<I: Imports> {
    /// Lives as long as the hook: states outlive it until their workers look.
    pub(crate) alive: Weak<()>,
    pub(crate) program: Program,
    pub(crate) settings: Settings,
    pub(crate) imports: I,
    pub(crate) folders: Folders,
    pub(crate) region: Region<I::Made>,
    pub(crate) cache: Cache,
    pub(crate) flight: Arc<Flight>,
    pub(crate) metrics: Metrics,
    pub(crate) failures: LogLimiter,
    pub(crate) lines: LogLimiter,
    pub(crate) replacements: LogLimiter,
}

/// Gauges that are computed with each scrape.
pub(crate) struct Sizes<I: Imports>(pub(crate) Weak<Shared<I>>);

impl<I: Imports> fmt::Debug for Sizes<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sizes")
    }
}

impl<I: Imports> Collector for Sizes<I> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.0.upgrade() else {
            return Ok(());
        };
        let waiting = shared.flight.waiting() as u64;
        let to = &mut encoder;
        gauge(
            to,
            "hook_runs_waiting",
            "Runs of the hook that wait",
            &waiting,
        )?;
        let help = "Certificates and other choices that tls:cached keeps";
        gauge(to, "hook_region_entries", help, &shared.region.entries())?;
        let help = "Bytes of what tls:cached keeps";
        gauge(to, "hook_region_bytes", help, &shared.region.bytes())?;
        let help = "Bytes of the cache that scripts use";
        gauge(to, "hook_cache_bytes", help, &shared.cache.bytes())
    }
}
