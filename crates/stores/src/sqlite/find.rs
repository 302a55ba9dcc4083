//! The one read of a handshake.

use rusqlite::Connection;
use rusqlite::types::Type;

use super::log;
use super::read::CREDENTIAL;
use super::rows::{Fault, Step};
use crate::catalog_row::{self, host_columns};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Answer, Found, precondition};

/// Finds the exact record or the wildcard's, with what it refers to, and the
/// state that was read. Statements are short, and read no more than there is: their
/// text is hashed at each use, and a join with what is absent costs as much as one with
/// what is there.
pub(super) fn find(
    connection: &Connection,
    generation: u64,
    name: &HostName,
) -> Step<Answer<SealedBytes>> {
    // As long as this statement is open, the others read the same state: a
    // transaction of its own would take two statements more.
    let mut statement = connection.prepare_cached(EXACT)?;
    let mut exact = statement.query([name.as_str()])?;
    let row = exact.next()?.ok_or_else(Fault::no_meta)?;
    let read_at = log::read_at(row, generation)?;
    let found = match row.get_ref(READ_AT_COLUMNS)?.data_type() {
        Type::Null => above(connection, name)?,
        _ => {
            let record = catalog_row::host(row, READ_AT_COLUMNS, HostPattern::from(name))?;
            Some(found(connection, record, false)?)
        }
    };
    Ok(Answer {
        read_at: Some(read_at),
        ..found.map_or_else(Answer::absent, Answer::found)
    })
}

/// Finds the wildcard's record.
fn above(connection: &Connection, name: &HostName) -> Step<Option<Found<SealedBytes>>> {
    let mut statement = connection.prepare_cached(ABOVE)?;
    let mut rows = statement.query([name.parent()])?;
    let Some(row) = rows.next()? else {
        return Ok(None);
    };
    let pattern = name
        .wildcard()
        .ok_or_else(|| Fault::Value(format!("a wildcard above {name}")))?;
    let record = catalog_row::host(row, 1, pattern)?;
    found(connection, record, row.get(0)?).map(Some)
}

fn found(connection: &Connection, record: HostRecord, shadowed: bool) -> Step<Found<SealedBytes>> {
    precondition::readable(&record)?;
    let mut credentials = Vec::with_capacity(1);
    let mut statement = connection.prepare_cached(CREDENTIAL)?;
    for (key_type, id) in record.references.iter() {
        let mut rows = statement.query([id.as_u64()])?;
        let row = rows.next()?;
        let row = row.ok_or_else(|| precondition::missing(&record, key_type))?;
        credentials.push(catalog_row::credential(row, 0, id, key_type)?);
    }
    Ok(Found {
        record,
        credentials,
        shadowed,
        fresh_for: None,
    })
}

/// Gives one row, with nulls in place of an absent host.
const EXACT: &str = concat!(
    "SELECT m.log, m.number, ",
    host_columns!(),
    " FROM meta m LEFT JOIN hosts h ON h.pattern = ?1 WHERE m.one = 1"
);

/// Columns of the state in [`EXACT`]. The host's first one is never null.
const READ_AT_COLUMNS: usize = 2;

/// Tells first whether there are exact records below the wildcard.
const ABOVE: &str = concat!(
    "SELECT EXISTS (SELECT 1 FROM hosts WHERE parent = ?1), ",
    host_columns!(),
    " FROM hosts h WHERE h.pattern = '*.' || ?1"
);

/// Statements whose plans a test reads.
#[cfg(test)]
pub(super) fn indexed() -> [&'static str; 2] {
    [EXACT, ABOVE]
}
