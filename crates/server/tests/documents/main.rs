//! Tests site documents: which are read, what their errors say, and that
//! docs/site.schema.json and docs/sites.md describe them.

#![allow(clippy::unwrap_used)]

mod checker;
mod errors;
mod formats;
mod large;
mod later_errors;
mod passwords;
mod reserved;
mod schema;
mod script_errors;

use sekisho_certs::Tenant;
use sekisho_server::site::{Site, SiteDocument, SiteError};

/// Reads a document as an operator's, and again as a stored one.
fn site(json: &str) -> Result<Site, SiteError> {
    of_tenant(json, "anna")
}

fn of_tenant(json: &str, tenant: &str) -> Result<Site, SiteError> {
    let tenant = Tenant::parse(tenant).unwrap();
    let document = SiteDocument::parse(json)?;
    let stored = Site::parse(document.stored(), &tenant);
    let site = document.site(&tenant);
    assert_eq!(site.as_ref().err(), stored.as_ref().err());
    stored
}
