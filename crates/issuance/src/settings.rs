//! Settings of an issuer, as the configuration gives them.

use crate::acme::{CaSettings, ChallengeType, ExternalAccount, KeyKind};
use crate::admission;
use crate::quota::Quotas;
pub use crate::setting_error::SettingError;
pub use crate::solver::{DnsZone, Served};

/// Settings of an issuer, `[acme]`.
#[derive(Clone, Debug)]
pub struct Settings {
    /// CAs in the order of preference; at least one.
    pub cas: Vec<CaOptions>,
    /// URIs, such as `mailto:ops@example.com`, at which the CAs can warn.
    pub contact: Vec<String>,
    /// True if the operator agrees to the terms of all of these CAs.
    pub agree: bool,
    /// Conditions of a certificate on first access.
    pub admission: admission::Settings,
    /// Orders in flight at most, of this process.
    pub orders: usize,
    /// Kind of keys for lineages without a wish.
    pub key: KeyKind,
    /// True if a renewal keeps the key of the certificate before it.
    pub reuse_key: bool,
    /// Challenges in the order in which they are tried. Wildcards have DNS-01 only.
    pub solvers: Vec<ChallengeType>,
    /// Zones in which records of DNS-01 can be written.
    pub dns: Vec<DnsZone>,
    /// Zone that servers of the catalog answer for.
    pub served: Option<Served>,
}

/// CA with what is particular to it, `[acme.ca.NAME]`.
#[derive(Clone, Debug)]
pub struct CaOptions {
    /// Name, directory and root.
    pub ca: CaSettings,
    /// Account of another kind at the CA that ours is bound to.
    pub external: Option<ExternalAccount>,
    /// Profile of certificates; the CA's choice if none.
    pub profile: Option<String>,
    /// Common name of the root that chains should lead to.
    pub chain: Option<String>,
    /// Limits of the CA.
    pub quotas: Quotas,
}

impl CaOptions {
    /// Makes the options of a CA that is known by name; none for another name.
    #[must_use]
    pub fn builtin(name: &str) -> Option<Self> {
        Some(Self::new(CaSettings::builtin(name)?))
    }

    /// Makes the options of a CA without anything particular: Let's Encrypt's limits
    /// for its directories, no limits for others.
    #[must_use]
    pub fn new(ca: CaSettings) -> Self {
        let is = |name| crate::acme::directory_of(name) == Some(ca.directory.as_str());
        let quotas = match () {
            () if is("letsencrypt") => Quotas::letsencrypt(),
            () if is("letsencrypt-staging") => Quotas::letsencrypt_staging(),
            () => Quotas::default(),
        };
        Self {
            ca,
            external: None,
            profile: None,
            chain: None,
            quotas,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use sekisho_certs::HostName;

    use super::*;
    use crate::acme;
    use crate::solver::dns01;

    #[test]
    fn errors_name_the_key_below_acme() {
        let mut ca = CaSettings::builtin("zerossl").unwrap();
        ca.root = Some(PathBuf::from("/nowhere/ca.pem"));
        let error = SettingError::from(acme::Ca::new(&ca).unwrap_err()).to_string();
        let expected = "ca.zerossl.ca: /nowhere/ca.pem: No such file";
        assert!(error.starts_with(expected), "{error}");

        let zone = HostName::parse("example.com").unwrap();
        let webhook = dns01::Webhook::new("ftp://hook.example", None, None);
        let error = SettingError::of_zone(&zone, webhook.unwrap_err());
        assert_eq!(error.key, "dns.\"example.com\".webhook");

        let admission = admission::Settings {
            ask: Some("ftp://ask.example".into()),
            ..admission::Settings::default()
        };
        let error = admission::Admission::new(admission).unwrap_err();
        assert_eq!(error.key, "ask");
    }
}
