//! Lineages as the rows of a catalog.

use std::time::Duration;

use sekisho_certs::credential::{KeyType, SealedBytes};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Lineage, LineageName};
use sekisho_certs::record::Tenant;

/// Columns of a lineage `l` and of the claim `c` that holds.
macro_rules! columns {
    () => {
        "l.name, l.tenant, l.names, l.ca, l.profile, l.key_type, l.solver, l.credential,
    l.due, l.turn, l.attempts, l.error_at, l.error, l.key_id, l.nonce, l.bytes,
    c.holder, c.until_ms, c.epoch, l.issued_by"
    };
}
pub(crate) use columns;

/// Returns the column `names`: no pattern holds a space.
pub(crate) fn names(names: &[HostPattern]) -> String {
    let names: Vec<_> = names.iter().map(HostPattern::as_str).collect();
    names.join(" ")
}

/// Reads the columns that are text. The error says which lineage is damaged, and
/// how.
pub(crate) fn read(
    name: &str,
    tenant: &str,
    names: &str,
    key_type: Option<&str>,
) -> Result<Lineage<SealedBytes>, String> {
    let bad = |what: &dyn ToString| format!("lineage {name}: {}", what.to_string());
    let parsed = names.split(' ').map(HostPattern::parse);
    let parsed: Result<Vec<_>, _> = parsed.collect();
    let parsed = parsed.map_err(|why| bad(&why))?;
    let tenant = Tenant::parse(tenant).map_err(|why| bad(&why))?;
    let mut lineage = Lineage::new(tenant, parsed).ok_or_else(|| bad(&"it covers no name"))?;
    lineage.name = LineageName::parse(name)?;
    lineage.wishes.key_type = match key_type {
        Some(word) => Some(KeyType::parse(word).ok_or_else(|| bad(&"its key type is not known"))?),
        None => None,
    };
    Ok(lineage)
}

/// Converts a time to milliseconds, of which sums with the clock stay in range:
/// at most a hundred years.
pub(crate) fn ttl_ms(ttl: Duration) -> i64 {
    let most = 100 * 366 * 24 * 60 * 60 * 1000;
    i64::try_from(ttl.as_millis()).map_or(most, |ttl| ttl.min(most))
}
