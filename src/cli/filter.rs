//! Filters of lists: which hosts or certificates a command shows.

use std::sync::Arc;

use sekisho_certs::{CredentialFilter, HostFilter, HostName, Origin, Tenant};
use sekisho_server::value::Unit;

/// Conditions, each of which must be met. Of the states one can be asked for.
#[derive(Debug, clap::Args)]
pub(crate) struct FilterArgs {
    /// Only those of this tenant; '' is the operator
    #[arg(long, value_name = "T", value_parser = Tenant::parse)]
    pub(crate) tenant: Option<Tenant>,
    /// Only those of this name and of all names below it
    #[arg(long, value_name = "NAME")]
    pub(crate) under: Option<HostName>,
    /// Only those that this source brought and nothing changed since
    #[arg(long, value_name = "SOURCE", value_parser = Origin::parse)]
    pub(crate) origin: Option<Origin>,
    /// Only those with a certificate that ends within this time, such as 30d
    #[arg(long, value_name = "TIME", value_parser = seconds, group = "state")]
    expiring: Option<i64>,
    /// Only those with a certificate that has ended
    #[arg(long, group = "state")]
    expired: bool,
    /// Only those whose last attempt to issue or renew a certificate failed
    #[arg(long, group = "state")]
    pub(crate) failing: bool,
    /// Only those without a certificate
    #[arg(long, group = "state")]
    pub(crate) no_cert: bool,
    /// Print only how many there are
    #[arg(long)]
    pub(crate) count: bool,
}

impl FilterArgs {
    /// Returns the conditions on host records.
    pub(crate) fn hosts(&self) -> HostFilter {
        HostFilter {
            tenant: self.tenant.clone(),
            under: self.under.clone(),
            without_certificate: self.no_cert,
            origin: self.source(),
            suspended: false,
        }
    }

    /// Returns the certificates by whose end is asked, if that is.
    pub(crate) fn ends(&self, now: i64) -> Option<CredentialFilter> {
        let expiring = self.expiring.map(|time| CredentialFilter::Ends {
            from: now,
            until: now.saturating_add(time),
        });
        let expired = CredentialFilter::Ends {
            from: 0,
            until: now,
        };
        expiring.or(self.expired.then_some(expired))
    }

    /// Returns the name of the source.
    pub(crate) fn source(&self) -> Option<Arc<str>> {
        let origin = self.origin.as_ref();
        origin.map(|origin| Arc::clone(&origin.source))
    }
}

fn seconds(text: &str) -> Result<i64, String> {
    let millis = Unit::Time.parse(text)?;
    i64::try_from(millis / 1000).map_err(|error| error.to_string())
}
