//! Keys of `[acme]`, as they are written.

use std::collections::BTreeMap;

use serde::Deserialize;

/// `[acme]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawAcme {
    pub(crate) cas: Vec<String>,
    pub(crate) contact: Vec<String>,
    pub(crate) agree: bool,
    pub(crate) first_access: Option<String>,
    pub(crate) ask: Option<String>,
    pub(crate) ask_ca: Option<String>,
    pub(crate) addresses: Vec<String>,
    pub(crate) caa: Option<bool>,
    pub(crate) allow: Vec<String>,
    pub(crate) deny: Vec<String>,
    pub(crate) resolvers: Vec<String>,
    pub(crate) key: Option<String>,
    pub(crate) reuse_key: bool,
    pub(crate) solvers: Option<Vec<String>>,
    pub(crate) waiting: Option<i64>,
    pub(crate) handshake_timeout: Option<String>,
    pub(crate) orders: Option<i64>,
    pub(crate) ca: BTreeMap<String, RawCa>,
    pub(crate) dns: BTreeMap<String, RawZone>,
}

/// `[acme.ca.NAME]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCa {
    pub(crate) directory: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) eab_id: Option<String>,
    pub(crate) eab_key: Option<String>,
    pub(crate) profile: Option<String>,
    pub(crate) chain: Option<String>,
    pub(crate) quotas: Option<RawQuotas>,
}

/// `quotas` of a CA.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawQuotas {
    pub(crate) orders: Option<String>,
    pub(crate) domains: Option<String>,
    pub(crate) duplicates: Option<String>,
    pub(crate) failures: Option<String>,
}

/// `[acme.dns."ZONE"]`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawZone {
    pub(crate) exec: Option<String>,
    pub(crate) webhook: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) user: Option<String>,
    pub(crate) password: Option<String>,
    pub(crate) rfc2136: Option<String>,
    pub(crate) tsig: Option<String>,
    pub(crate) propagation_timeout: Option<String>,
    pub(crate) check: Option<bool>,
    pub(crate) servers: Vec<String>,
    pub(crate) serve: Option<Vec<String>>,
    pub(crate) name_servers: Vec<String>,
}
