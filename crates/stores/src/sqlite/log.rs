//! The change log: its position, its pages, its end.

use rusqlite::{Row, Transaction};

use super::read::StoreConnection;
use super::rows::{Fault, Step};
use super::statements::{first, list};
use crate::catalog_row::{self, signed};
use crate::log_row;
use sekisho_certs::store::{ChangePage, LogId, LogPosition, ReadAt, Result};

impl StoreConnection {
    pub(super) fn position(&mut self) -> Result<LogPosition> {
        let generation = self.generation;
        self.run(|connection| {
            let read = |row: &Row<'_>| position(row, generation);
            first(connection, POSITION, (), read)?.ok_or_else(Fault::no_meta)
        })
    }

    pub(super) fn changes(&mut self, after: u64, limit: usize) -> Result<ChangePage> {
        let generation = self.generation;
        self.snapshot(|snapshot| {
            let read = |row: &Row<'_>| Ok((position(row, generation)?, row.get::<_, u64>(3)?));
            let (at, forgotten) =
                first(snapshot, POSITION, (), read)?.ok_or_else(Fault::no_meta)?;
            let values = (signed(after), catalog_row::limit(limit));
            let changes = list(snapshot, CHANGES, values, |row| log_row::read(row, 0))?;
            let mark_last = changes.last().map(|last| mark_of(snapshot, last.number));
            Ok(ChangePage {
                log: at.log,
                last: at.number,
                gap: after < forgotten || after > at.number,
                mark_before: mark_of(snapshot, after)?,
                mark_last: mark_last.transpose()?.flatten(),
                changes,
            })
        })
    }

    /// Moves the whole write-ahead log into the file; false if others read
    /// from it.
    pub(super) fn empty_wal(&mut self) -> Result<bool> {
        self.run(|connection| {
            let busy: i64 =
                connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", (), |row| row.get(0))?;
            Ok(busy == 0)
        })
    }

    /// Grows when another connection, of any process, has committed. Equal
    /// figures of different connections mean nothing.
    pub(super) fn data_version(&mut self) -> Result<i64> {
        self.run(|connection| {
            let version = first(connection, "PRAGMA data_version", (), |row| row.get(0))?;
            version.ok_or_else(Fault::no_meta)
        })
    }
}

/// Reads a state from the first two columns, log and number.
pub(super) fn read_at(row: &Row<'_>, generation: u64) -> rusqlite::Result<ReadAt> {
    Ok(ReadAt {
        log: log_id(row.get(0)?, generation),
        number: row.get(1)?,
    })
}

/// Reads a row of [`POSITION`].
fn position(row: &Row<'_>, generation: u64) -> rusqlite::Result<LogPosition> {
    let ReadAt { log, number } = read_at(row, generation)?;
    let mark = row.get::<_, i64>(2)?.cast_unsigned();
    Ok(LogPosition { log, number, mark })
}

/// The mark of the change with that number; none if it is not kept.
fn mark_of(snapshot: &Transaction<'_>, number: u64) -> Step<Option<u64>> {
    let mark = first(snapshot, MARK, [signed(number)], |row| row.get(0))?;
    Ok(mark.map(i64::cast_unsigned))
}

/// The stored identity, made another for each file put in the place of one
/// that was open: a copy carries its identity with it, not its history.
fn log_id(stored: [u8; 16], generation: u64) -> LogId {
    let id = u128::from_be_bytes(stored) ^ u128::from(generation);
    LogId(id.to_be_bytes())
}

const POSITION: &str = "SELECT m.log, m.number, coalesce(c.mark, 0), m.forgotten
    FROM meta m LEFT JOIN changes c ON c.number = m.number";
const MARK: &str = "SELECT mark FROM changes WHERE number = ?1";
const CHANGES: &str = "SELECT number, subject, kind, key, removed FROM changes
    WHERE number > ?1 ORDER BY number LIMIT ?2";
