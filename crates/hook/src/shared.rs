//! Parts of a hook that all workers share.

use std::sync::{Arc, Weak};

use crate::cache::Cache;
use crate::compile::Program;
use crate::files::Folders;
use crate::flight::Flight;
use crate::imports::Imports;
use crate::log::LogLimit;
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
    pub(crate) failures: LogLimit,
    pub(crate) lines: LogLimit,
    pub(crate) replacements: LogLimit,
}
