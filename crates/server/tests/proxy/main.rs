//! Tests the reverse proxy between real clients and scripted upstreams.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

#[path = "../common/mod.rs"]
mod common;

mod balance;
mod behind_proxies;
mod certificate_of;
mod certificates;
mod client_shares;
mod connecting;
mod defaults;
mod descriptors;
mod edges;
mod faults;
mod fields;
mod framing;
mod grpc;
mod held_tunnels;
mod http2;
mod http2_faults;
mod http2_heads;
mod named_fields;
mod names;
mod pooling;
mod proxy_protocol;
mod retry_budget;
mod still_served;
mod streaming;
mod tenants;
mod timeouts;
mod tls;
mod upgrade_log;
mod upgrades;
mod uploads;
mod upstream_floods;
mod world;
