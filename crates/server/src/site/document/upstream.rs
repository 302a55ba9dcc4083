//! Keys of `upstream`.

use serde::Deserialize;

use super::forms::{Table, TextOr, TextOrNumber};

/// Keys of `upstream`, where it is more than a URL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawUpstream {
    pub(crate) servers: Vec<TextOr<RawServer>>,
    pub(crate) protocol: Option<String>,
    pub(crate) tls: Option<Table<RawTls>>,
    pub(crate) host: Option<String>,
    pub(crate) balance: Option<TextOr<RawCookie>>,
    pub(crate) check: Option<Table<RawCheck>>,
    pub(crate) timeouts: Table<RawTimeouts>,
    pub(crate) proxy_protocol: Option<String>,
    pub(crate) forwarded: bool,
    pub(crate) underscores: bool,
    pub(crate) tenant_field: Option<String>,
    pub(crate) certificate_field: Option<String>,
    pub(crate) connections: Option<i64>,
    pub(crate) waiting: Option<i64>,
}

impl RawUpstream {
    /// Returns the first key that stands in the configuration since, and that the
    /// document has.
    pub(crate) fn moved_key(&self) -> Option<&'static str> {
        let tenant = self.tenant_field.as_ref().map(|_| "tenant_field");
        let certificate = self.certificate_field.as_ref();
        tenant.or(certificate.map(|_| "certificate_field"))
    }
}

/// Keys of `fastcgi`, where it is more than a URL.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawFastCgi {
    pub(crate) servers: Vec<TextOr<RawServer>>,
    pub(crate) scripts: Option<Vec<String>>,
    pub(crate) keep: Option<i64>,
    pub(crate) balance: Option<TextOr<RawCookie>>,
    pub(crate) timeouts: Table<RawTimeouts>,
    pub(crate) connections: Option<i64>,
    pub(crate) waiting: Option<i64>,
}

impl TextOr<RawUpstream> {
    /// Returns whether a server's URL has a placeholder, which format 2 lacks.
    pub(super) fn has_placeholder(&self) -> bool {
        let has = |url: &str| url.contains('{');
        match self {
            Self::Text(url) => has(url),
            Self::Table(raw) => raw.servers.iter().any(|server| match server {
                TextOr::Text(url) => has(url),
                TextOr::Table(server) => server.url.as_deref().is_some_and(has),
            }),
        }
    }
}

/// Keys of an item of `servers`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawServer {
    pub(crate) url: Option<String>,
    pub(crate) weight: Option<i64>,
}

/// Keys of `tls`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTls {
    pub(crate) name: Option<String>,
    pub(crate) ca: Option<String>,
    pub(crate) certificate_of: Option<String>,
}

/// Keys of `balance`, where it is by cookie.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCookie {
    pub(crate) cookie: Option<String>,
}

/// Keys of `check`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawCheck {
    pub(crate) path: Option<String>,
    pub(crate) interval: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) status: Option<TextOrNumber>,
}

/// Keys of `timeouts`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct RawTimeouts {
    pub(crate) connect: Option<String>,
    pub(crate) first_byte: Option<String>,
    pub(crate) idle: Option<String>,
    pub(crate) upgraded: Option<String>,
}
