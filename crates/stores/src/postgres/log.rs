//! The ordered log: its position and its pages.

use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::{Fault, Step};
use super::rows::get;
use crate::catalog_row::{self, signed};
use crate::log_row;
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, ReadAt};

/// Reads the position of the log.
pub(super) async fn position(from: &Connection) -> Step<LogPosition> {
    let rows = from.query(POSITION, &[]).await?;
    position_of(from, rows.first().ok_or_else(no_row)?)
}

/// Reads the position from the first columns, which are [`position_columns`].
fn position_of(from: &Connection, row: &Row) -> Step<LogPosition> {
    let ReadAt { log, number } = read_at(from, row)?;
    let mark = catalog_row::number(row, READ_AT_COLUMNS)?;
    Ok(LogPosition { log, number, mark })
}

/// Reads the state from the first columns, which are [`read_at_columns`].
pub(super) fn read_at(from: &Connection, row: &Row) -> Step<ReadAt> {
    Ok(ReadAt {
        log: log_id(from, row)?,
        number: catalog_row::number(row, 2)?,
    })
}

/// Reads at most `limit` changes behind number `after`. Numbers have no holes: there is a
/// gap if the first change that is kept is not the next one.
pub(super) async fn changes(from: &Connection, after: u64, limit: usize) -> Step<ChangePage> {
    let rows = from
        .query(CHANGES, &[&signed(after), &catalog_row::limit(limit)])
        .await?;
    let first = rows.first().ok_or_else(no_row)?;
    let LogPosition { log, number, .. } = position_of(from, first)?;
    let changes = rows.iter().map(change).filter_map(Step::transpose);
    let changes = changes.collect::<Step<Vec<_>>>()?;
    let is_next = |first: &Change| first.number == after + 1;
    Ok(ChangePage {
        log,
        last: number,
        gap: after > number || after < number && !changes.first().is_some_and(is_next),
        mark_before: mark(first, POSITION_COLUMNS)?,
        mark_last: rows
            .last()
            .map_or(Ok(None), |last| mark(last, CHANGE + 5))?,
        changes,
    })
}

fn mark(row: &Row, column: usize) -> Step<Option<u64>> {
    Ok(get::<Option<i64>>(row, column)?.map(i64::cast_unsigned))
}

/// Index of a change's first column.
const CHANGE: usize = POSITION_COLUMNS + 1;

/// Reads a change; none from the one row of an empty page.
fn change(row: &Row) -> Step<Option<Change>> {
    match get::<Option<i64>>(row, CHANGE)? {
        Some(_) => log_row::read(row, CHANGE).map(Some),
        None => Ok(None),
    }
}

/// Makes the log's identity of the stored one and of where it was read. A copy carries the
/// stored one with it, not its history, and may give a number a second time: tables that
/// were restored from a dump, and a server that took over, have another identity.
fn log_id(from: &Connection, row: &Row) -> Step<LogId> {
    let table: u32 = get(row, 0)?;
    let timeline = get::<Option<&str>>(row, 1)?.ok_or_else(standby)?;
    let timeline = u32::from_str_radix(timeline, 16).unwrap_or(0);
    let place = u128::from(table) << 32 | u128::from(timeline);
    let stored = u128::from_be_bytes(from.log()?.0);
    Ok(LogId((stored ^ place).to_be_bytes()))
}

/// Makes the refusal of a server that only follows another one. A pooler may lead there
/// although the connection began at the primary.
fn standby() -> Fault {
    Fault::Away("the database is a standby, which may lag behind its primary".into())
}

/// Makes the error of an answer without a row, which each statement here gives.
pub(super) fn no_row() -> Fault {
    Fault::Value("the log has no position".into())
}

/// Columns of the state that is read. The table's number is that of `meta`, as it was when
/// lookups still read that table. The timeline is the first digits of the write-ahead log
/// file in use; a standby has none.
///
/// The number comes from the log's last row, by one descent of its index. Each write
/// makes another version of the one row of `meta`, and all of them are kept, and read, for
/// as long as a snapshot is open anywhere, as that of a dump.
macro_rules! read_at_columns {
    () => {
        "'sekisho.meta'::regclass::oid, CASE WHEN NOT pg_is_in_recovery()
          THEN left(pg_walfile_name(pg_current_wal_lsn()), 8) END,
          coalesce((SELECT number FROM sekisho.changes ORDER BY number DESC LIMIT 1), 0)"
    };
}
pub(super) use read_at_columns;
/// Number of [`read_at_columns`].
pub(super) const READ_AT_COLUMNS: usize = 3;

/// Columns of the log's position. A join in place of the inner selects would be planned
/// by statistics.
macro_rules! position_columns {
    () => {
        concat!(
            read_at_columns!(),
            ", coalesce((SELECT mark FROM sekisho.changes ORDER BY number DESC LIMIT 1), 0)"
        )
    };
}
/// Number of [`position_columns`].
const POSITION_COLUMNS: usize = READ_AT_COLUMNS + 1;

const POSITION: &str = concat!("SELECT ", position_columns!());

pub(super) const CHANGES: &str = concat!(
    "SELECT ",
    position_columns!(),
    ", (SELECT mark FROM sekisho.changes WHERE number = $1),
          c.number, c.subject, c.kind, c.key, c.removed, c.mark FROM (VALUES (true)) one
          LEFT JOIN (SELECT * FROM sekisho.changes WHERE number > $1 ORDER BY number LIMIT $2) c
          ON true ORDER BY c.number"
);
