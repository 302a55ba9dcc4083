//! Lineages as the rows of a catalog.

use std::time::Duration;

use crate::catalog_row::{self, CatalogRow, Step};
use crate::fault::Fault;
use sekisho_certs::credential::{KeyType, SealedBytes};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Claim, LastError, Lineage, LineageName, Wishes};
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

/// Reads a lineage from [`columns`]. The error of a text says which lineage is damaged, and
/// how.
pub(crate) fn read<R: CatalogRow>(row: &R) -> Step<Lineage<SealedBytes>, R> {
    let name = name(row)?;
    let bad = |what: &dyn ToString| Fault::Value(format!("lineage {name}: {}", what.to_string()));
    let owned = |column| Ok::<_, Fault<R::Error>>(row.text(column)?.map(str::to_owned));
    let names = catalog_row::text(row, 2)?
        .split(' ')
        .map(HostPattern::parse);
    let names: Result<Vec<_>, _> = names.collect();
    let names = names.map_err(|why| bad(&why))?;
    let tenant = Tenant::parse(catalog_row::text(row, 1)?).map_err(|why| bad(&why))?;
    let read = Lineage::new(tenant, names).ok_or_else(|| bad(&"it covers no name"))?;
    let key_type = match row.text(5)? {
        Some(word) => Some(KeyType::parse(word).ok_or_else(|| bad(&"its key type is not known"))?),
        None => None,
    };
    let attempts = u32::try_from(catalog_row::integer(row, 10)?);
    let attempts = attempts.map_err(|_| bad(&"its count of attempts is no count"))?;
    let last_error = match row.integer(11)? {
        Some(at) => Some(LastError {
            at,
            text: catalog_row::text(row, 12)?.to_owned(),
        }),
        None => None,
    };
    let order = match row.integer(13)? {
        Some(_) => Some(catalog_row::sealed(row, 13)?),
        None => None,
    };
    let claim = match owned(16)? {
        Some(holder) => Some(Claim {
            holder,
            until_ms: catalog_row::integer(row, 17)?,
            epoch: catalog_row::number(row, 18)?,
        }),
        None => None,
    };
    Ok(Lineage {
        wishes: Wishes {
            ca: owned(3)?,
            profile: owned(4)?,
            key_type,
            solver: owned(6)?,
        },
        credential: catalog_row::credential_id(row, 7)?,
        issued_by: owned(19)?,
        due: row.integer(8)?,
        turn: catalog_row::integer(row, 9)?,
        attempts,
        last_error,
        order,
        claim,
        name,
        ..read
    })
}

/// Reads a lineage's name from the first column.
pub(crate) fn name<R: CatalogRow>(row: &R) -> Step<LineageName, R> {
    let name = LineageName::parse(catalog_row::text(row, 0)?);
    name.map_err(Fault::Value)
}

/// Converts a time to milliseconds, of which sums with the clock stay in range:
/// at most a hundred years.
pub(crate) fn ttl_ms(ttl: Duration) -> i64 {
    let most = 100 * 366 * 24 * 60 * 60 * 1000;
    i64::try_from(ttl.as_millis()).map_or(most, |ttl| ttl.min(most))
}
