//! Tests site documents: which are read, what their errors say, and that
//! docs/site.schema.json and docs/sites.md describe them.

#![allow(clippy::unwrap_used)]

mod checker;
mod errors;
mod schema;

use sekisho_certs::Tenant;
use sekisho_server::site::{Site, SiteError};

/// Reads a document, in the oldest format that suffices.
fn site(json: &str) -> Result<Site, SiteError> {
    let tenant = Tenant::parse("anna").unwrap();
    Site::parse(&Site::to_stored(json, &tenant)?, &tenant)
}
