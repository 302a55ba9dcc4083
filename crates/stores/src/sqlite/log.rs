//! The ordered log: its position, its pages, its end.

use rusqlite::{OptionalExtension, Transaction};

use super::documents;
use super::read::Reader;
use super::rows::{self, Fault, Step, signed};
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, Result, Subject, What};

impl Reader {
    pub(super) fn position(&mut self) -> Result<LogPosition> {
        let generation = self.generation();
        self.run(|connection| {
            let mut statement = connection.prepare_cached(POSITION)?;
            let mut rows = statement.query(())?;
            let row = rows.next()?.ok_or_else(no_meta)?;
            Ok(LogPosition {
                log: log_id(row.get(0)?, generation),
                number: rows::number(row, 1)?,
                mark: rows::number(row, 3)?,
            })
        })
    }

    pub(super) fn changes(&mut self, after: u64, limit: usize) -> Result<ChangePage> {
        let generation = self.generation();
        self.snapshot(|snapshot| {
            let mut statement = snapshot.prepare_cached(POSITION)?;
            let mut rows = statement.query(())?;
            let row = rows.next()?.ok_or_else(no_meta)?;
            let last = rows::number(row, 1)?;
            let forgotten = rows::number(row, 2)?;
            let changes = page(snapshot, after, limit)?;
            let mark_last = changes.last().map(|last| mark_of(snapshot, last.number));
            Ok(ChangePage {
                log: log_id(row.get(0)?, generation),
                last,
                gap: after < forgotten || after > last,
                mark_before: mark_of(snapshot, after)?,
                mark_last: mark_last.transpose()?.flatten(),
                changes,
            })
        })
    }

    /// Moves the whole write-ahead log into the file; false if others read
    /// from it.
    pub(super) fn empty_log(&mut self) -> Result<bool> {
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
            let mut statement = connection.prepare_cached("PRAGMA data_version")?;
            Ok(statement.query_row((), |row| row.get(0))?)
        })
    }
}

/// The mark of the change with that number; none if it is not kept.
fn mark_of(snapshot: &Transaction<'_>, number: u64) -> Step<Option<u64>> {
    let mark = snapshot
        .prepare_cached(MARK)?
        .query_row([signed(number)], |row| row.get::<_, i64>(0))
        .optional()?;
    Ok(mark.map(i64::cast_unsigned))
}

fn page(snapshot: &Transaction<'_>, after: u64, limit: usize) -> Step<Vec<Change>> {
    let mut statement = snapshot.prepare_cached(CHANGES)?;
    let mut rows = statement.query((signed(after), rows::limit(limit)))?;
    let mut changes = Vec::new();
    while let Some(row) = rows.next()? {
        let number = rows::number(row, 0)?;
        let bad = |what: String| Fault::Value(format!("change {number}: {what}"));
        let subject = match rows::text(row, 1)? {
            HOST => Subject::Host(rows::pattern(row, 3)?),
            CREDENTIAL => Subject::Credential(rows::text(row, 3)?.parse().map_err(bad)?),
            DOCUMENT => Subject::Document(documents::id(row, 2)?),
            other => return Err(bad(format!("of the unknown subject {other:?}"))),
        };
        let what = if row.get(4)? {
            What::Removed
        } else {
            What::Put
        };
        changes.push(Change {
            number,
            subject,
            what,
        });
    }
    Ok(changes)
}

/// The stored identity, made another for each file put in the place of one
/// that was open: a copy carries its identity with it, not its history.
fn log_id(stored: [u8; 16], generation: u64) -> LogId {
    let id = u128::from_be_bytes(stored) ^ u128::from(generation);
    LogId(id.to_be_bytes())
}

fn no_meta() -> Fault {
    Fault::Value("the table meta is empty".into())
}

/// How [`Subject`]s are stored.
pub(super) const HOST: &str = "host";
/// The same.
pub(super) const CREDENTIAL: &str = "credential";
/// The same.
pub(super) const DOCUMENT: &str = "document";

const POSITION: &str = "SELECT m.log, m.number, m.forgotten, coalesce(c.mark, 0)
    FROM meta m LEFT JOIN changes c ON c.number = m.number";
const MARK: &str = "SELECT mark FROM changes WHERE number = ?1";
const CHANGES: &str = "SELECT number, subject, kind, key, removed FROM changes
    WHERE number > ?1 ORDER BY number LIMIT ?2";
