//! What all workers share.

use std::sync::Arc;

use sekisho_certs::{Clock, Lookup};

use crate::budget::Budget;
use crate::log_limiter::LogLimits;
use crate::metrics::Metrics;
use crate::settings::{Defaults, Limits};
use crate::site::Responder;
use crate::virtual_host::VirtualHost;

/// What all workers share; none of it is locked across a wait.
pub(crate) struct Shared {
    pub(crate) lookup: Arc<Lookup<VirtualHost>>,
    pub(crate) budget: Budget,
    pub(crate) metrics: Arc<Metrics>,
    pub(crate) responder: Arc<Responder>,
    pub(crate) defaults: Defaults,
    pub(crate) limits: Limits,
    pub(crate) clock: Clock,
    pub(crate) log_limits: LogLimits,
    /// The port that redirects lead to.
    pub(crate) https_port: u16,
    /// Runs first on the runtime of each worker.
    pub(crate) on_worker: fn(),
}
