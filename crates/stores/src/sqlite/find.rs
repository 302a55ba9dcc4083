//! The one read of a handshake.

use rusqlite::{Connection, Row};

use super::rows::{
    self, CREDENTIAL_COLUMNS, Fault, HOST_COLUMNS, Step, credential_columns, host_columns,
};
use sekisho_certs::credential::{KeyType, SealedBytes};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Answer, Found, StoreError};

/// Finds the exact record or the wildcard's, with what it refers to, by one
/// statement: one read transaction, and no descent more than needed, since
/// the second half runs only if the first gave nothing.
pub(super) fn find(connection: &Connection, name: &HostName) -> Step<Answer<SealedBytes>> {
    let mut statement = connection.prepare_cached(FIND)?;
    let mut rows = statement.query((name.as_str(), name.parent()))?;
    let Some(row) = rows.next()? else {
        return Ok(Answer::absent());
    };
    let shadowed = match row.get::<_, u32>(0)? {
        EXACT => None,
        wildcard => Some(wildcard == SHADOWED),
    };
    let first = found(row, name, shadowed)?;
    if shadowed.is_none() {
        return Ok(Answer::found(first));
    }
    // SQL promises no order between the halves: an exact row still wins.
    match rows.next()? {
        None => Ok(Answer::found(first)),
        Some(row) => Ok(Answer::found(found(row, name, None)?)),
    }
}

fn found(row: &Row<'_>, name: &HostName, shadowed: Option<bool>) -> Step<Found<SealedBytes>> {
    let pattern = match shadowed {
        None => HostPattern::from(name),
        Some(_) => name
            .wildcard()
            .ok_or_else(|| Fault::Value(format!("a wildcard above {name}")))?,
    };
    let record = rows::host(row, 1, pattern)?;
    let mut credentials = Vec::with_capacity(1);
    for (key_type, id) in record.references.iter() {
        let first = 1 + HOST_COLUMNS + key_type as usize * CREDENTIAL_COLUMNS;
        let credential = rows::credential(row, first, id, key_type)?;
        credentials.push(credential.ok_or_else(|| dangling(&record, key_type))?);
    }
    Ok(Found {
        record,
        credentials,
        shadowed: shadowed.unwrap_or(false),
        fresh_for: None,
    })
}

fn dangling(record: &HostRecord, key_type: KeyType) -> StoreError {
    let pattern = &record.pattern;
    let key_type = key_type.as_str();
    StoreError::Corrupt(
        format!("host {pattern} refers to an {key_type} credential that is not there").into(),
    )
}

/// The exact record's half.
const EXACT: u32 = 0;
/// The wildcard's half, with exact records below it.
const SHADOWED: u32 = 2;

macro_rules! half {
    ($flag:literal, $pattern:literal) => {
        concat!(
            "SELECT ",
            $flag,
            ", ",
            host_columns!("h"),
            ", ",
            credential_columns!("e", "ei"),
            ", ",
            credential_columns!("d", "di"),
            ", ",
            credential_columns!("r", "ri"),
            " FROM hosts h
              LEFT JOIN credentials e ON e.id = h.ecdsa LEFT JOIN issuers ei ON ei.id = e.issuer
              LEFT JOIN credentials d ON d.id = h.ed25519 LEFT JOIN issuers di ON di.id = d.issuer
              LEFT JOIN credentials r ON r.id = h.rsa LEFT JOIN issuers ri ON ri.id = r.issuer
              WHERE h.pattern = ",
            $pattern
        )
    };
}

/// The credentials stand in the order of [`KeyType::ALL`].
pub(super) const FIND: &str = concat!(
    half!("0", "?1"),
    " UNION ALL ",
    half!(
        "1 + EXISTS (SELECT 1 FROM hosts WHERE parent = ?2)",
        "'*.' || ?2"
    )
);
