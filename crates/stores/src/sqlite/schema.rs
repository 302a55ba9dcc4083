//! The tables, and what tells a file of ours from any other.

use std::time::{Duration, Instant};

use rusqlite::{Connection, Error, ErrorCode, Transaction, TransactionBehavior, params};

use super::{documents, lineages};
use crate::upgrade::INDEXES;
use sekisho_certs::random;
use sekisho_certs::store::CatalogId;

/// "seki", in the file's header: tells it from other programs' databases.
pub(super) const APPLICATION_ID: i32 = 0x7365_6b69;
/// Grows with each change of the tables.
pub(super) const VERSION: i32 = 5;

/// Kinds of files, by their header.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Header {
    /// Nothing in it: just made, or its making broke off.
    Empty,
    /// Ours.
    Store {
        /// The version of its tables.
        version: i32,
        /// The oldest version that may read and write them.
        compatible: i32,
    },
    /// Another program's.
    Foreign,
}

/// Reads the header and nothing else, so that opening costs the same however
/// many hosts there are. In one transaction: another process may just be
/// making the tables, and half of its header would look like a foreign one.
pub(super) fn header(connection: &Connection) -> rusqlite::Result<Header> {
    header_within(&connection.unchecked_transaction()?)
}

fn header_within(connection: &Transaction<'_>) -> rusqlite::Result<Header> {
    let value = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
    Ok(match (value("application_id")?, value("user_version")?) {
        (APPLICATION_ID, version) => Header::Store {
            version,
            compatible: match version {
                ..2 => version,
                _ => connection.query_row("SELECT compatible FROM meta", (), |row| row.get(0))?,
            },
        },
        (0, 0) if value("schema_version")? == 0 => Header::Empty,
        _ => Header::Foreign,
    })
}

/// Switches to WAL, where readers and a writer do not wait for each other. The
/// file remembers it; a copy that a backup made may not.
///
/// Two that switch at once would each wait for the other to let the file go,
/// so SQLite refuses one of them at once, whatever its `busy_timeout`: that
/// one has let go by then and tries again, for up to `busy_timeout`.
pub(super) fn switch_to_wal(
    connection: &Connection,
    busy_timeout: Duration,
) -> rusqlite::Result<()> {
    let begun = Instant::now();
    loop {
        let switched = connection.pragma_update(None, "journal_mode", "wal");
        match switched.as_ref().map_err(Error::sqlite_error_code) {
            Err(Some(ErrorCode::DatabaseBusy)) if begun.elapsed() < busy_timeout => {
                std::thread::sleep(SWITCH_PAUSE);
            }
            _ => return switched,
        }
    }
}

/// Makes the tables in an empty file, whole or not at all. Does nothing if
/// another process was faster.
pub(super) fn create(connection: &mut Connection, busy_timeout: Duration) -> rusqlite::Result<()> {
    if header(connection)? != Header::Empty {
        return Ok(());
    }
    switch_to_wal(connection, busy_timeout)?;
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    if header_within(&transaction)? != Header::Empty {
        return Ok(());
    }
    transaction.execute_batch(TABLES)?;
    transaction.execute_batch(lineages::TABLES)?;
    transaction.execute_batch(lineages::ISSUED_BY)?;
    for index in INDEXES {
        transaction.execute_batch(&format!("CREATE INDEX {index}"))?;
    }
    transaction.execute(
        "INSERT INTO meta (one, catalog, log, number, forgotten, token, compatible)
         VALUES (1, ?1, ?2, 0, 0, 0, ?3)",
        params![random::<16>(), random::<16>(), COMPATIBLE],
    )?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// The identity that [`create`] drew.
pub(super) fn catalog_id(connection: &Connection) -> rusqlite::Result<CatalogId> {
    connection
        .prepare_cached("SELECT catalog FROM meta")?
        .query_row((), |row| Ok(CatalogId(row.get(0)?)))
}

/// Gives the log another identity: a copy may give a number a second time.
pub(super) fn renew_log(connection: &Connection) -> rusqlite::Result<()> {
    let renewed = connection.execute("UPDATE meta SET log = ?1", [random::<16>()])?;
    debug_assert_eq!(renewed, 1, "a store has one row of this");
    Ok(())
}

/// Brings older tables to [`VERSION`], in one transaction. Does nothing if
/// another process was faster.
pub(super) fn migrate(connection: &mut Connection) -> rusqlite::Result<()> {
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let Header::Store {
        version: version @ 1..VERSION,
        ..
    } = header_within(&transaction)?
    else {
        return Ok(());
    };
    let done = usize::try_from(version - 1).unwrap_or(0);
    for step in MIGRATIONS.iter().skip(done) {
        step.iter()
            .try_for_each(|sql| transaction.execute_batch(sql))?;
    }
    transaction.pragma_update(None, "user_version", VERSION)?;
    transaction.commit()
}

/// How soon a refused switch to WAL is tried again: about what one takes.
const SWITCH_PAUSE: Duration = Duration::from_millis(1);

/// The oldest version that may read and write tables of [`VERSION`]. Additive
/// steps keep it: new columns have defaults, and statements name their columns.
const COMPATIBLE: i32 = 2;

/// Each brings the tables from the version of its place, counted from 1, to
/// the next. None builds an index: `sekisho store upgrade` does.
const MIGRATIONS: [&[&str]; VERSION as usize - 1] = [
    &[MARKS],
    &[NO_RENEWALS, lineages::TABLES],
    &[lineages::ISSUED_BY],
    &[LISTS],
];

/// Adds columns without defaults, as `ALTER TABLE` does. That statement then reads all rows
/// of a STRICT table to check them, seconds to minutes of a writer's lock for 2,000,000 hosts.
/// Rows that lack the columns have NULL there: nothing is to be checked. The steps are those
/// of <https://sqlite.org/lang_altertable.html>, "Making Other Kinds Of Table Schema Changes".
/// A text that is no table fails at the end, and is not committed.
const LISTS: &str = "
PRAGMA writable_schema = ON;
-- A comment may end the last line of a definition.
UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', char(10)
    || ', reversed TEXT, origin TEXT, origin_version INTEGER, suspended TEXT) STRICT')
    WHERE type = 'table' AND name = 'hosts';
UPDATE sqlite_schema SET sql = replace(sql, ') STRICT', char(10)
    || ', origin TEXT, origin_version INTEGER) STRICT')
    WHERE type = 'table' AND name = 'credentials';
-- Increments the number by which other connections know that they must read the schema again.
CREATE VIEW step AS SELECT 1;
DROP VIEW step;
PRAGMA writable_schema = RESET;
SELECT reversed, origin, origin_version, suspended FROM hosts LIMIT 0;
SELECT origin, origin_version FROM credentials LIMIT 0;
";

const MARKS: &str = "
-- version 1 writes changes without naming columns: it is refused from now on
ALTER TABLE meta ADD COLUMN compatible INTEGER NOT NULL DEFAULT 2;
ALTER TABLE changes RENAME TO changes_1;
CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    subject TEXT NOT NULL,
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    removed INTEGER NOT NULL,
    mark INTEGER NOT NULL DEFAULT (random())
) STRICT;
INSERT INTO changes (number, subject, kind, key, removed)
    SELECT number, subject, kind, key, removed FROM changes_1;
DROP TABLE changes_1;
";

/// Programs of version 2 write the column `renew_at`, which stays.
const NO_RENEWALS: &str = "DROP INDEX due";

/// `hosts` without a rowid: one descent finds a pattern. `credentials` by
/// their id, which grows with time: what is imported together lies together.
/// A chain without its leaf is stored once in `issuers`; there are few, so
/// they are kept for good. Partial indexes hold only the rows that they find.
const TABLES: &str = concat!(
    "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    catalog BLOB NOT NULL,
    log BLOB NOT NULL,
    -- the number of the last change
    number INTEGER NOT NULL,
    -- changes up to this number are no longer kept
    forgotten INTEGER NOT NULL,
    -- the last fencing token
    token INTEGER NOT NULL,
    -- the oldest version that may read and write these tables
    compatible INTEGER NOT NULL
) STRICT;

CREATE TABLE issuers (
    id INTEGER PRIMARY KEY,
    digest BLOB NOT NULL UNIQUE,
    chain BLOB NOT NULL
) STRICT;

CREATE TABLE credentials (
    id INTEGER PRIMARY KEY,
    version INTEGER NOT NULL,
    key_type TEXT NOT NULL,
    leaf BLOB NOT NULL,
    issuer INTEGER,
    key_id INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    key BLOB NOT NULL,
    not_before INTEGER NOT NULL,
    not_after INTEGER NOT NULL,
    -- unused since version 3: programs of version 2 write it
    renew_at INTEGER,
    -- the source that brought it, while `origin_version` is its version
    origin TEXT,
    origin_version INTEGER
) STRICT;

CREATE TABLE hosts (
    pattern TEXT PRIMARY KEY,
    -- what stands behind the first dot of an exact name
    parent TEXT,
    tenant TEXT NOT NULL,
    site_format INTEGER,
    site TEXT,
    -- the least version; with a client CA, 'client-ca' or 'optional-client-ca', a line
    -- break and its PEM follow
    tls TEXT NOT NULL,
    disabled INTEGER NOT NULL,
    ecdsa INTEGER,
    ed25519 INTEGER,
    rsa INTEGER,
    version INTEGER NOT NULL,
    -- the labels backwards, a dot after each; programs of version 4 leave it out
    reversed TEXT,
    -- the source that brought it, while `origin_version` is its version
    origin TEXT,
    origin_version INTEGER,
    -- format, a space and the document that answers while the host is suspended
    suspended TEXT
) STRICT, WITHOUT ROWID;
CREATE INDEX hosts_below ON hosts (parent) WHERE parent IS NOT NULL;
CREATE INDEX hosts_by_ecdsa ON hosts (ecdsa) WHERE ecdsa IS NOT NULL;
CREATE INDEX hosts_by_ed25519 ON hosts (ed25519) WHERE ed25519 IS NOT NULL;
CREATE INDEX hosts_by_rsa ON hosts (rsa) WHERE rsa IS NOT NULL;

",
    documents::table!(),
    "
CREATE INDEX documents_expiring ON documents (expires) WHERE expires IS NOT NULL;

-- Of servers before leases were documents; goes with the next version of the schema.
CREATE TABLE leases (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    token INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE TABLE changes (
    number INTEGER PRIMARY KEY,
    -- 'host', 'credential' or 'document'
    subject TEXT NOT NULL,
    -- a document's kind, else empty
    kind TEXT NOT NULL,
    -- a pattern, an id or a document's key
    key TEXT NOT NULL,
    removed INTEGER NOT NULL,
    -- random, one for each transaction; the default keeps older writers going
    mark INTEGER NOT NULL DEFAULT (random())
) STRICT;
"
);
