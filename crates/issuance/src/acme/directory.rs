//! The CA's directory (RFC 8555, section 7.1.1), as far as instant-acme does not
//! show it.

use std::collections::BTreeMap;

use http::Uri;
use serde::Deserialize;

use super::error::Fault;

/// Endpoints and features of a CA.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Directory {
    pub(super) new_nonce: String,
    pub(super) new_account: String,
    pub(super) new_order: String,
    /// Where keys of accounts are changed (RFC 8555, section 7.3.5).
    pub(super) key_change: Option<String>,
    /// Where renewal information stands (RFC 9773, section 3).
    pub(super) renewal_info: Option<String>,
    #[serde(default)]
    pub(super) meta: Meta,
}

impl Directory {
    /// Reads a directory and checks the URLs that every order needs: instant-acme
    /// panics at one that is none.
    pub(super) fn parse(json: &[u8]) -> Result<Self, Fault> {
        let directory: Self = serde_json::from_slice(json)?;
        for (name, url) in [
            ("newNonce", &directory.new_nonce),
            ("newAccount", &directory.new_account),
            ("newOrder", &directory.new_order),
        ] {
            if !is_https(url) {
                let what = format!("{name} is {url:?}, no https:// URL");
                return Err(Fault::Malformed(what));
            }
        }
        Ok(directory)
    }
}

/// Tells whether a text is a URL of HTTPS with a host.
pub(super) fn is_https(url: &str) -> bool {
    let uri = url.parse::<Uri>();
    uri.is_ok_and(|uri| uri.scheme_str() == Some("https") && uri.authority().is_some())
}

/// Description that a CA gives of itself.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Meta {
    /// URL of the terms of service.
    pub terms_of_service: Option<String>,
    /// Names that CAA records know the CA by (RFC 8659).
    #[serde(default)]
    pub caa_identities: Vec<String>,
    /// True if an account needs an external one.
    #[serde(default)]
    pub external_account_required: bool,
    /// Profiles of certificates, with a description each.
    #[serde(default)]
    pub profiles: BTreeMap<String, String>,
}
