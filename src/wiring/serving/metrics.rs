//! Metrics of a server.

use sekisho_certs::metrics::Registry;
use sekisho_server::metrics::register_process;
use sekisho_server::{NameServer, Parts};

use crate::handover::Record;
use crate::process;
use crate::wiring::hook;
use crate::wiring::log;
use crate::wiring::open::Opened;
use crate::wiring::serving::issuance::Issuance;

/// Registers the metrics of all parts of a server.
pub(super) fn registry(
    opened: &Opened,
    parts: &Parts,
    issuance: Option<&Issuance>,
    zone: Option<&NameServer>,
    hook: Option<&hook::Opened>,
    handovers: &Record,
) -> Registry {
    let mut registry = Registry::default();
    register_process(registry.sub_registry_with_prefix("process"));
    let own = registry.sub_registry_with_prefix("sekisho");
    parts.metrics.register(own);
    parts.responder.register(own);
    parts.lookup.register(own);
    let help = "Connections to PostgreSQL that were given up since a lookup hung on them";
    let retired = opened.retired.clone();
    own.register("store_connections_retired", help, retired);
    if let Some(redis) = &opened.redis {
        redis.register(own);
    }
    if let Some(disk) = &opened.disk {
        disk.register(own);
    }
    if let Some(challenges) = &parts.challenges {
        challenges.register(own);
    }
    if let Some(issuance) = issuance {
        issuance.issuer.register(own);
    }
    if let Some(zone) = zone {
        zone.register(own);
    }
    if let Some(log) = &parts.access_log {
        log.register(own);
    }
    if let Some(hook) = hook {
        hook.register(own);
    }
    handovers.register(own);
    log::register(own);
    process::register_build(own);
    registry
}
