//! The ordered log: its position and its pages.

use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::{Fault, Step};
use super::rows::{self, signed};
use crate::log_row;
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, ReadAt};

/// Reads the position of the log.
pub(super) async fn position(from: &Connection) -> Step<LogPosition> {
    let rows = from.query(POSITION, &[]).await?;
    position_of(rows.first().ok_or_else(rows::no_meta)?)
}

/// Reads the position from the first columns, which are [`position_columns`].
fn position_of(row: &Row) -> Step<LogPosition> {
    let ReadAt { log, number } = read_at(row)?;
    let mark = rows::number(row, READ_AT_COLUMNS)?;
    Ok(LogPosition { log, number, mark })
}

/// Reads the state from the first columns, which are [`read_at_columns`].
pub(super) fn read_at(row: &Row) -> Step<ReadAt> {
    Ok(ReadAt {
        log: log_id(row)?,
        number: rows::number(row, 3)?,
    })
}

/// Reads at most `limit` changes behind number `after`.
pub(super) async fn changes(from: &Connection, after: u64, limit: usize) -> Step<ChangePage> {
    let rows = from
        .query(CHANGES, &[&signed(after), &rows::limit(limit)])
        .await?;
    let first = rows.first().ok_or_else(rows::no_meta)?;
    let LogPosition { log, number, .. } = position_of(first)?;
    let forgotten = rows::number(first, POSITION_COLUMNS)?;
    let changes = rows.iter().map(change).filter_map(Step::transpose);
    Ok(ChangePage {
        log,
        last: number,
        gap: after < forgotten || after > number,
        mark_before: mark(first, POSITION_COLUMNS + 1)?,
        mark_last: rows
            .last()
            .map_or(Ok(None), |last| mark(last, CHANGE + 5))?,
        changes: changes.collect::<Step<_>>()?,
    })
}

fn mark(row: &Row, column: usize) -> Step<Option<u64>> {
    Ok(rows::get::<Option<i64>>(row, column)?.map(i64::cast_unsigned))
}

/// Index of a change's first column.
const CHANGE: usize = POSITION_COLUMNS + 2;

/// Reads a change; none from the one row of an empty page.
fn change(row: &Row) -> Step<Option<Change>> {
    let Some(number) = rows::get::<Option<i64>>(row, CHANGE)? else {
        return Ok(None);
    };
    let change = log_row::read(
        number.cast_unsigned(),
        rows::get(row, CHANGE + 1)?,
        rows::get(row, CHANGE + 2)?,
        rows::get(row, CHANGE + 3)?,
        rows::get(row, CHANGE + 4)?,
    );
    change.map(Some).map_err(Fault::Value)
}

/// Reads the log's identity. Tables that were restored from a dump, and a server
/// that took over, make another of the stored one. A copy carries its identity
/// with it, not its history, and may give a number a second time.
fn log_id(row: &Row) -> Step<LogId> {
    let stored = u128::from_be_bytes(rows::id(row, 0)?);
    let table: u32 = rows::get(row, 1)?;
    let timeline: &str = rows::get(row, 2)?;
    let timeline = u32::from_str_radix(timeline, 16).unwrap_or(0);
    let place = u128::from(table) << 32 | u128::from(timeline);
    Ok(LogId((stored ^ place).to_be_bytes()))
}

/// Table of [`read_at_columns`], the one row of `sekisho.meta`. PostgreSQL takes a
/// table without statistics for hundreds of rows: after an import it would read all of
/// the log at each call, until autovacuum has run. The limit says how many there are.
macro_rules! read_at_table {
    () => {
        "(SELECT tableoid, * FROM sekisho.meta LIMIT 1) m"
    };
}
pub(super) use read_at_table;

/// Columns of the state that is read, from [`read_at_table`]. The timeline is the
/// first digits of the write-ahead log file in use.
macro_rules! read_at_columns {
    () => {
        "m.log, m.tableoid, CASE WHEN pg_is_in_recovery() THEN ''
          ELSE left(pg_walfile_name(pg_current_wal_lsn()), 8) END, m.number"
    };
}
pub(super) use read_at_columns;
/// Number of [`read_at_columns`].
pub(super) const READ_AT_COLUMNS: usize = 4;

/// Columns of the log's position. A join in place of the inner select would be planned
/// by statistics.
macro_rules! position_columns {
    () => {
        concat!(
            read_at_columns!(),
            ", coalesce((SELECT mark FROM sekisho.changes WHERE number = m.number), 0)"
        )
    };
}
/// Number of [`position_columns`].
const POSITION_COLUMNS: usize = READ_AT_COLUMNS + 1;

const POSITION: &str = concat!("SELECT ", position_columns!(), " FROM ", read_at_table!());

pub(super) const CHANGES: &str = concat!(
    "SELECT ",
    position_columns!(),
    ", m.forgotten, (SELECT mark FROM sekisho.changes WHERE number = $1),
          c.number, c.subject, c.kind, c.key, c.removed, c.mark FROM ",
    read_at_table!(),
    " LEFT JOIN (SELECT * FROM sekisho.changes WHERE number > $1 ORDER BY number LIMIT $2) c
          ON true ORDER BY c.number"
);
