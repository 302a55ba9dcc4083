//! Keys of the configuration file, as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::acme::RawAcme;
use super::hook::RawHook;

/// Content of the whole file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawConfig {
    pub(crate) listen: RawListen,
    pub(crate) default: BTreeMap<String, String>,
    pub(crate) store: RawStore,
    pub(crate) keys: RawKeys,
    pub(crate) cache: RawCache,
    pub(crate) site: Option<toml::Table>,
    pub(crate) sites: RawSites,
    pub(crate) tickets: RawTickets,
    pub(crate) log: RawLog,
    pub(crate) acme: Option<RawAcme>,
    pub(crate) hook: Option<RawHook>,
    pub(crate) server: RawServer,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawListen {
    pub(crate) https: Vec<String>,
    pub(crate) http: Vec<String>,
    pub(crate) plain: Option<bool>,
    pub(crate) public_port: Option<i64>,
    pub(crate) admin: Option<String>,
    pub(crate) admin_token: Option<String>,
    pub(crate) trusted: Vec<String>,
    pub(crate) proxy: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawStore {
    pub(crate) url: Option<String>,
    pub(crate) token: Option<String>,
    pub(crate) ca: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawKeys {
    pub(crate) master: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCache {
    pub(crate) memory: Option<String>,
    pub(crate) fresh: Option<String>,
    pub(crate) absent: Option<String>,
    pub(crate) files: Option<String>,
    pub(crate) disk: Option<String>,
    pub(crate) disk_size: Option<String>,
    pub(crate) redis: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawSites {
    pub(crate) allow: Option<Vec<String>>,
    pub(crate) resolvers: Vec<String>,
    pub(crate) tenant_field: Option<String>,
    pub(crate) certificate_field: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTickets {
    pub(crate) key: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawLog {
    pub(crate) access: Option<String>,
    pub(crate) format: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawServer {
    pub(crate) workers: Option<i64>,
    pub(crate) connections: Option<i64>,
    pub(crate) handshake_timeout: Option<String>,
    pub(crate) header_timeout: Option<String>,
    pub(crate) idle_timeout: Option<String>,
    pub(crate) body_timeout: Option<String>,
    pub(crate) drain_timeout: Option<String>,
    pub(crate) handover_timeout: Option<String>,
    pub(crate) absent_per_prefix: Option<i64>,
    pub(crate) loads: Option<i64>,
    pub(crate) loads_per_prefix: Option<i64>,
    pub(crate) loads_waiting: Option<i64>,
}
