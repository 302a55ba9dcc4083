//! Health (`/healthz`) and readiness (`/readyz`).

use http::{Response, StatusCode};
use sekisho_certs::LookupStats;
use serde_json::{Value, json};

use super::AdminState;
use crate::site::body::{Body, plain};

/// Answers 200 as long as the process runs; the body describes the state. A
/// failing store is no reason for a restart.
pub(crate) fn healthz(shared: &AdminState) -> Response<Body> {
    let metrics = &shared.sources.metrics;
    let [store, feed, cache] = lookup_state(&(shared.sources.lookup_stats)());
    let body = json!({
        "version": env!("CARGO_PKG_VERSION"),
        "uptime_seconds": shared.started.elapsed().as_secs(),
        "start_up_seconds": metrics.start_up().map(|time| time.as_secs_f64()),
        "state": state(shared),
        "store": store,
        "feed": feed,
        "cache": cache,
        "sites": shared.sources.sites_digest,
        "connections_open": metrics.connections_open(),
    });
    super::json(&body)
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

/// Describes the store, the change feed and the cache of a lookup.
#[must_use]
pub fn lookup_state(stats: &LookupStats) -> [Value; 3] {
    let store = match stats.store_available {
        false => "unavailable",
        true if stats.counts.was_asked() => "available",
        true => "not asked yet",
    };
    [
        json!({
            "state": store,
            "errors": stats.counts.calls_failed.get(),
            "loads_in_flight": stats.in_flight,
        }),
        json!({"state": stats.feed.as_str(), "position": stats.position}),
        json!({
            "records": stats.usage.records,
            "bytes": stats.usage.bytes,
            "capacity_bytes": stats.usage.capacity,
        }),
    ]
}
