//! The tables of copies, and the statements on them.

use rusqlite::{Connection, Result, Row, params};

use crate::catalog_row::{document, document_columns};
use crate::sqlite::documents;
use crate::sqlite::rows::Step;
use crate::sqlite::statements::{change, first, list, run};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{CatalogId, Document, LogId, LogPosition};

/// "sekw", in the file's header.
pub(super) const APPLICATION_ID: i32 = 0x7365_6b77;
/// Of the tables and of the values in them. A file of another one is started
/// anew.
pub(super) const VERSION: i32 = 6;

/// Store and state that the copies belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// A digest of what the store is called.
    pub(super) store: Vec<u8>,
    /// Id of this file: keys of a plain store are sealed for it alone.
    pub(super) own: CatalogId,
    /// The catalog's id; none before it was asked, or for a plain store.
    pub(super) catalog: Option<CatalogId>,
    /// Up to where changes of the catalog's log are applied.
    pub(super) position: Option<LogPosition>,
}

/// A copy as it lies there.
pub(super) struct Copy {
    pub(super) bytes: Vec<u8>,
    pub(super) shadowed: bool,
}

pub(super) fn create(connection: &Connection, meta: &Meta) -> Result<()> {
    let transaction = connection.unchecked_transaction()?;
    transaction.execute_batch(TABLES)?;
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", VERSION)?;
    let sql = "INSERT INTO meta (one, store, own) VALUES (1, ?1, ?2)";
    transaction.execute(sql, params![meta.store, meta.own.0])?;
    if let Some(position) = meta.position {
        set_position(&transaction, position)?;
    }
    transaction.commit()
}

pub(super) fn version(connection: &Connection) -> Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(super) fn meta(connection: &Connection) -> Result<Meta> {
    let sql = "SELECT store, own, catalog, log, number, mark FROM meta";
    connection.query_row(sql, (), |row| {
        let position = match row.get::<_, Option<_>>(3)? {
            None => None,
            Some(log) => Some(LogPosition {
                log: LogId(log),
                number: row.get(4)?,
                mark: row.get::<_, i64>(5)?.cast_unsigned(),
            }),
        };
        Ok(Meta {
            store: row.get(0)?,
            own: CatalogId(row.get(1)?),
            catalog: row.get::<_, Option<_>>(2)?.map(CatalogId),
            position,
        })
    })
}

pub(super) fn set_position(connection: &Connection, position: LogPosition) -> Result<()> {
    let LogPosition { log, number, mark } = position;
    let sql = "UPDATE meta SET log = ?1, number = ?2, mark = ?3";
    run(connection, sql, params![log.0, number, mark.cast_signed()])
}

pub(super) fn count(connection: &Connection) -> Result<u64> {
    connection.query_row("SELECT count(*) FROM copies", (), |row| row.get(0))
}

/// Pages that hold something.
pub(super) fn pages(connection: &Connection) -> Result<u64> {
    let value = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // A damaged header may claim more free pages than there are.
    let used = value("page_count")?.saturating_sub(value("freelist_count")?);
    Ok(u64::try_from(used).unwrap_or(0))
}

/// The copy that answers a name, by the rules of [`super`], and its pattern.
pub(super) fn find(connection: &Connection, name: &HostName) -> Result<Option<(String, Copy)>> {
    let above = name.wildcard().map(|above| above.as_str().to_owned());
    let read = |row: &Row<'_>| {
        let (bytes, shadowed) = (row.get(1)?, row.get(2)?);
        Ok((row.get(0)?, Copy { bytes, shadowed }))
    };
    first(connection, FIND, (name.as_str(), above), read)
}

/// Tells whether this pattern has a copy of that digest.
pub(super) fn has(
    connection: &Connection,
    pattern: &HostPattern,
    digest: i64,
    shadowed: bool,
) -> Result<bool> {
    let sql = "SELECT 1 FROM copies WHERE pattern = ?1 AND digest = ?2 AND shadowed = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    statement.exists(params![pattern.as_str(), digest, shadowed])
}

/// Adds a copy as the newest; its pattern has none.
pub(super) fn put(
    connection: &Connection,
    record: &HostRecord,
    digest: i64,
    copy: &Copy,
) -> Result<()> {
    let [ecdsa, ed25519, rsa] =
        KeyType::ALL.map(|key_type| record.references.of(key_type).map(CredentialId::as_u64));
    let values = params![
        record.pattern.as_str(),
        digest,
        copy.shadowed,
        ecdsa,
        ed25519,
        rsa,
        copy.bytes,
    ];
    let sql = "INSERT INTO copies (pattern, digest, shadowed, ecdsa, ed25519, rsa, bytes)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    run(connection, sql, values)
}

/// Drops the copy of a pattern; says whether there was one.
pub(super) fn drop_pattern(connection: &Connection, pattern: &str) -> Result<usize> {
    let sql = "DELETE FROM copies WHERE pattern = ?1";
    change(connection, sql, [pattern])
}

/// Drops at most `limit` copies that hold this credential; says how many.
pub(super) fn drop_credential(
    connection: &Connection,
    id: CredentialId,
    limit: usize,
) -> Result<usize> {
    let sql = "DELETE FROM copies WHERE id IN
               (SELECT id FROM copies WHERE ecdsa = ?1 OR ed25519 = ?1 OR rsa = ?1 LIMIT ?2)";
    change(connection, sql, (id.as_u64(), limit))
}

/// Drops the copies that were put the longest ago; says how many.
pub(super) fn drop_oldest(connection: &Connection, limit: usize) -> Result<usize> {
    let sql = "DELETE FROM copies WHERE id IN (SELECT id FROM copies ORDER BY id LIMIT ?1)";
    change(connection, sql, [limit])
}

/// Makes a wildcard's copy answer no name that was not noted.
pub(super) fn shadow(connection: &Connection, pattern: &str) -> Result<usize> {
    let sql = "UPDATE copies SET shadowed = 1 WHERE pattern = ?1 AND shadowed = 0";
    change(connection, sql, [pattern])
}

/// Notes that the store answered this name with the wildcard above. The oldest
/// notes make room: names below one wildcard take no place from hosts.
pub(super) fn note(connection: &Connection, name: &HostName, most: i64) -> Result<()> {
    let sql = "INSERT INTO notes (name, parent) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
    if change(connection, sql, (name.as_str(), name.parent()))? > 0 {
        // Numbers grow by one with each note, and what is below the window goes.
        let window = connection.last_insert_rowid() - most;
        let sql = "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE id <= ?1 LIMIT 2)";
        run(connection, sql, [window])?;
    }
    Ok(())
}

pub(super) fn drop_note(connection: &Connection, name: &str) -> Result<usize> {
    change(connection, "DELETE FROM notes WHERE name = ?1", [name])
}

/// Drops at most `limit` notes of names one label below; says how many.
pub(super) fn drop_notes(connection: &Connection, parent: &str, limit: usize) -> Result<usize> {
    let sql = "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE parent = ?1 LIMIT ?2)";
    change(connection, sql, (parent, limit))
}

pub(super) fn all_documents(connection: &Connection) -> Step<Vec<Document<SealedBytes>>> {
    let sql = concat!("SELECT ", document_columns!(), " FROM documents");
    list(connection, sql, (), |row| document(row))
}

/// Puts what a start needs in the place of what was there.
pub(super) fn set_start(
    connection: &Connection,
    catalog: CatalogId,
    start: &[Document<SealedBytes>],
) -> Result<()> {
    let transaction = connection.unchecked_transaction()?;
    run(&transaction, "UPDATE meta SET catalog = ?1", [catalog.0])?;
    run(&transaction, "DELETE FROM documents", ())?;
    for document in start {
        documents::put(&transaction, document)?;
    }
    transaction.commit()
}

const FIND: &str = "SELECT pattern, bytes, shadowed FROM copies
    WHERE pattern = ?1 OR pattern = ?2 AND
        (shadowed = 0 OR EXISTS (SELECT 1 FROM notes WHERE name = ?1))
    ORDER BY pattern <> ?1 LIMIT 1";

/// `copies` by the order in which they were put, the newest behind the others.
const TABLES: &str = concat!(
    "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store BLOB NOT NULL,
    own BLOB NOT NULL,
    catalog BLOB,
    log BLOB,
    number INTEGER,
    mark INTEGER
) STRICT;

CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    pattern TEXT NOT NULL UNIQUE,
    -- of its version, and of the versions and master keys of its credentials
    digest INTEGER NOT NULL,
    shadowed INTEGER NOT NULL,
    ecdsa INTEGER,
    ed25519 INTEGER,
    rsa INTEGER,
    bytes BLOB NOT NULL
) STRICT;
CREATE INDEX copies_by_ecdsa ON copies (ecdsa) WHERE ecdsa IS NOT NULL;
CREATE INDEX copies_by_ed25519 ON copies (ed25519) WHERE ed25519 IS NOT NULL;
CREATE INDEX copies_by_rsa ON copies (rsa) WHERE rsa IS NOT NULL;

-- names that the store answered with the wildcard above
CREATE TABLE notes (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    parent TEXT NOT NULL
) STRICT;
CREATE INDEX notes_by_parent ON notes (parent);
",
    documents::table!()
);
