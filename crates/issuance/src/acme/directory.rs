//! The CA's directory (RFC 8555, section 7.1.1), as far as instant-acme does not
//! show it.

use std::collections::BTreeMap;

use serde::Deserialize;

/// Endpoints and features of a CA.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Directory {
    /// Where renewal information stands (RFC 9773, section 3).
    pub(super) renewal_info: Option<String>,
    #[serde(default)]
    pub(super) meta: Meta,
}

/// What a CA says of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// URL of the terms of service.
    pub terms_of_service: Option<String>,
    /// Names that CAA records know the CA by (RFC 8659).
    #[serde(default)]
    pub caa_identities: Vec<String>,
    /// Whether an account needs an external one.
    #[serde(default)]
    pub external_account_required: bool,
    /// Profiles of certificates, with a description each.
    #[serde(default)]
    pub profiles: BTreeMap<String, String>,
}
