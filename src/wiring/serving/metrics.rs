//! Metrics of a server.

use std::sync::Arc;

use sekisho_certs::metrics::Registry;
use sekisho_certs::{Challenges, Lookup};
use sekisho_server::access_log::AccessLog;
use sekisho_server::metrics::{Metrics, register_process};
use sekisho_server::{Responder, VirtualHost};

use crate::process;
use crate::wiring::hook;
use crate::wiring::log;
use crate::wiring::open::Opened;
use crate::wiring::serving::issuance::Issuance;

/// Parts of a server that have metrics.
pub(super) struct Measured<'a> {
    pub(super) opened: &'a Opened,
    pub(super) lookup: &'a Arc<Lookup<VirtualHost>>,
    pub(super) metrics: &'a Arc<Metrics>,
    pub(super) responder: &'a Responder,
    pub(super) challenges: Option<&'a Challenges>,
    pub(super) issuance: Option<&'a Issuance>,
    pub(super) access_log: Option<&'a AccessLog>,
    pub(super) hook: Option<&'a hook::Opened>,
}

impl Measured<'_> {
    /// Registers the metrics of all parts.
    pub(super) fn registry(&self) -> Registry {
        let mut registry = Registry::default();
        register_process(registry.sub_registry_with_prefix("process"));
        let own = registry.sub_registry_with_prefix("sekisho");
        self.metrics.register(own);
        self.responder.register(own);
        self.lookup.register(own);
        let help = "Connections to PostgreSQL that were given up since a lookup hung on them";
        let retired = self.opened.retired.clone();
        own.register("store_connections_retired", help, retired);
        if let Some(redis) = &self.opened.redis {
            redis.register(own);
        }
        if let Some(disk) = &self.opened.disk {
            disk.register(own);
        }
        if let Some(challenges) = self.challenges {
            challenges.register(own);
        }
        if let Some(issuance) = self.issuance {
            issuance.register(own);
        }
        if let Some(log) = self.access_log {
            log.register(own);
        }
        if let Some(hook) = self.hook {
            hook.register(own);
        }
        log::register(own);
        process::register_build(own);
        registry
    }
}
