//! Health (`/healthz`) and readiness (`/readyz`).

use http::{Response, StatusCode};
use sekisho_certs::LookupStats;

use super::{AdminState, json};
use crate::site::body::{Body, plain};

/// Answers 200 as long as the process runs; the body describes the state. A
/// failing store is no reason for a restart.
pub(crate) fn healthz(shared: &AdminState) -> Response<Body> {
    let metrics = &shared.sources.metrics;
    let stats = (shared.sources.lookup_stats)();
    let body = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "start_up_seconds": metrics.start_up().map(|time| time.as_secs_f64()),
        "state": state(shared),
        "store": {
            "state": store_state(&stats),
            "errors": stats.counts.calls_failed.get(),
            "loads_in_flight": stats.in_flight,
        },
        "feed": {
            "state": stats.feed.as_str(),
            "position": stats.position,
        },
        "cache": {
            "records": stats.usage.records,
            "bytes": stats.usage.bytes,
            "capacity_bytes": stats.usage.capacity,
        },
        "sites": shared.sources.sites_digest,
        "connections_open": metrics.connections_open(),
    });
    json(&body)
}

/// Answers 503 only before the first listen and while draining. A store outage
/// must not make load balancers drop all servers.
pub(crate) fn readyz(shared: &AdminState) -> Response<Body> {
    match state(shared) {
        "serving" => plain(StatusCode::OK),
        state => Body::plain(
            StatusCode::SERVICE_UNAVAILABLE,
            format!("503 Service Unavailable: {state}\n"),
        ),
    }
}

fn state(shared: &AdminState) -> &'static str {
    if (shared.sources.draining)() {
        "draining"
    } else if shared.sources.metrics.start_up().is_some() {
        "serving"
    } else {
        "starting"
    }
}

fn store_state(stats: &LookupStats) -> &'static str {
    match stats.store_available {
        false => "unavailable",
        true if stats.counts.was_asked() => "available",
        true => "not asked yet",
    }
}
