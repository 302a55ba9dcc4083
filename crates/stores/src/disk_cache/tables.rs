//! The tables of copies, and the statements on them.

use rusqlite::{Connection, OptionalExtension, Result, Row, params};

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::References;
use sekisho_certs::store::{CatalogId, Document, DocumentId, LogId, LogPosition};

/// "sekw", in the file's header.
pub(super) const APPLICATION_ID: i32 = 0x7365_6b77;
/// Of the tables and of the values in them. A file of another one is started
/// anew.
pub(super) const VERSION: i32 = 3;

/// What the copies belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Meta {
    /// A digest of what the store is called.
    pub(super) store: Vec<u8>,
    /// What is sealed for this file alone is bound to it.
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
    connection.execute_batch("BEGIN")?;
    connection.execute_batch(TABLES)?;
    connection.pragma_update(None, "application_id", APPLICATION_ID)?;
    connection.pragma_update(None, "user_version", VERSION)?;
    connection.execute(
        "INSERT INTO meta (one, store, own) VALUES (1, ?1, ?2)",
        params![meta.store, meta.own.0],
    )?;
    set_catalog(connection, meta.catalog)?;
    set_position(connection, meta.position)?;
    connection.execute_batch("COMMIT")
}

pub(super) fn version(connection: &Connection) -> Result<i32> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

pub(super) fn meta(connection: &Connection) -> Result<Meta> {
    let sql = "SELECT store, own, catalog, log, number, mark FROM meta";
    connection.query_row(sql, (), |row| {
        let log: Option<[u8; 16]> = row.get(3)?;
        let number: Option<i64> = row.get(4)?;
        let mark: i64 = row.get(5)?;
        let position = log.zip(number).map(|(log, number)| LogPosition {
            log: LogId(log),
            number: number.cast_unsigned(),
            mark: mark.cast_unsigned(),
        });
        Ok(Meta {
            store: row.get(0)?,
            own: CatalogId(row.get(1)?),
            catalog: row.get::<_, Option<[u8; 16]>>(2)?.map(CatalogId),
            position,
        })
    })
}

fn set_catalog(connection: &Connection, catalog: Option<CatalogId>) -> Result<()> {
    let catalog = catalog.map(|catalog| catalog.0);
    run(connection, "UPDATE meta SET catalog = ?1", [catalog]).map(|_| ())
}

pub(super) fn set_position(connection: &Connection, position: Option<LogPosition>) -> Result<()> {
    let log = position.map(|position| position.log.0);
    let number = position.map(|position| position.number.cast_signed());
    let mark = position.map_or(0, |position| position.mark.cast_signed());
    let sql = "UPDATE meta SET log = ?1, number = ?2, mark = ?3";
    run(connection, sql, params![log, number, mark]).map(|_| ())
}

pub(super) fn count(connection: &Connection) -> Result<u64> {
    let sql = "SELECT count(*) FROM copies";
    connection.query_row(sql, (), |row| Ok(row.get::<_, i64>(0)?.cast_unsigned()))
}

/// Pages that hold something.
pub(super) fn pages(connection: &Connection) -> Result<u64> {
    let value = |name| connection.pragma_query_value(None, name, |row| row.get::<_, i64>(0));
    // A damaged header may claim more free pages than there are.
    let used = value("page_count")?.saturating_sub(value("freelist_count")?);
    Ok(u64::try_from(used).unwrap_or(0))
}

/// The pages that the file may have.
pub(super) fn most_pages(connection: &Connection) -> Result<u64> {
    let value = |row: &Row<'_>| row.get::<_, i64>(0);
    let most = connection.pragma_query_value(None, "max_page_count", value)?;
    Ok(most.cast_unsigned())
}

/// The copy that answers a name, by the rules of [`super`], and its pattern.
pub(super) fn find(connection: &Connection, name: &HostName) -> Result<Option<(String, Copy)>> {
    if let Some(exact) = copy(connection, name.as_str())? {
        return Ok(Some((name.as_str().to_owned(), exact)));
    }
    let Some(above) = name.wildcard() else {
        return Ok(None);
    };
    let Some(copy) = copy(connection, above.as_str())? else {
        return Ok(None);
    };
    let answers = !copy.shadowed || is_noted(connection, name)?;
    Ok(answers.then(|| (above.as_str().to_owned(), copy)))
}

fn copy(connection: &Connection, pattern: &str) -> Result<Option<Copy>> {
    let mut statement =
        connection.prepare_cached("SELECT bytes, shadowed FROM copies WHERE pattern = ?1")?;
    let read = |row: &Row<'_>| {
        Ok(Copy {
            bytes: row.get(0)?,
            shadowed: row.get(1)?,
        })
    };
    statement.query_row([pattern], read).optional()
}

fn is_noted(connection: &Connection, name: &HostName) -> Result<bool> {
    let mut statement = connection.prepare_cached("SELECT 1 FROM notes WHERE name = ?1")?;
    statement.exists([name.as_str()])
}

/// Whether this pattern has a copy of that state.
pub(super) fn has(
    connection: &Connection,
    pattern: &HostPattern,
    state: i64,
    shadowed: bool,
) -> Result<bool> {
    let sql = "SELECT 1 FROM copies WHERE pattern = ?1 AND state = ?2 AND shadowed = ?3";
    let mut statement = connection.prepare_cached(sql)?;
    statement.exists(params![pattern.as_str(), state, shadowed])
}

/// Puts a copy in the place of the one before it, as the newest.
pub(super) fn put(
    connection: &Connection,
    pattern: &HostPattern,
    references: &References,
    state: i64,
    copy: &Copy,
) -> Result<()> {
    let id = |key_type| references.of(key_type).map(|id| id.as_u64().cast_signed());
    let values = params![
        pattern.as_str(),
        state,
        copy.shadowed,
        id(KeyType::Ecdsa),
        id(KeyType::Ed25519),
        id(KeyType::Rsa),
        copy.bytes,
    ];
    let sql = "INSERT INTO copies (pattern, state, shadowed, ecdsa, ed25519, rsa, bytes)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    run(connection, sql, values).map(|_| ())
}

/// Drops the copy of a pattern; says whether there was one.
pub(super) fn drop_pattern(connection: &Connection, pattern: &str) -> Result<usize> {
    run(
        connection,
        "DELETE FROM copies WHERE pattern = ?1",
        [pattern],
    )
}

/// Drops at most `limit` copies that hold this credential; says how many.
pub(super) fn drop_credential(
    connection: &Connection,
    id: CredentialId,
    limit: usize,
) -> Result<usize> {
    let sql = "DELETE FROM copies WHERE id IN
               (SELECT id FROM copies WHERE ecdsa = ?1 UNION ALL
                SELECT id FROM copies WHERE ed25519 = ?1 UNION ALL
                SELECT id FROM copies WHERE rsa = ?1 LIMIT ?2)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    run(connection, sql, (id.as_u64().cast_signed(), limit))
}

/// Drops the copies that were put the longest ago; says how many.
pub(super) fn drop_oldest(connection: &Connection, limit: usize) -> Result<usize> {
    let sql = "DELETE FROM copies WHERE id IN (SELECT id FROM copies ORDER BY id LIMIT ?1)";
    run(connection, sql, [i64::try_from(limit).unwrap_or(i64::MAX)])
}

/// Makes a wildcard's copy answer no name that was not noted.
pub(super) fn shadow(connection: &Connection, pattern: &str) -> Result<usize> {
    let sql = "UPDATE copies SET shadowed = 1 WHERE pattern = ?1 AND shadowed = 0";
    run(connection, sql, [pattern])
}

/// Notes that the store answered this name with the wildcard above. The oldest
/// notes make room, so that names below one wildcard take no place from hosts.
pub(super) fn note(connection: &Connection, name: &HostName, most: u64) -> Result<()> {
    let sql = "INSERT INTO notes (name, parent) VALUES (?1, ?2) ON CONFLICT (name) DO NOTHING";
    if run(connection, sql, (name.as_str(), name.parent()))? == 0 {
        return Ok(());
    }
    // Numbers grow by one with each note, and what is below the window goes.
    let window = connection.last_insert_rowid() - i64::try_from(most).unwrap_or(i64::MAX);
    let sql = "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE id <= ?1 LIMIT 2)";
    run(connection, sql, [window]).map(|_| ())
}

pub(super) fn drop_note(connection: &Connection, name: &str) -> Result<usize> {
    run(connection, "DELETE FROM notes WHERE name = ?1", [name])
}

/// Drops at most `limit` notes of names one label below; says how many.
pub(super) fn drop_notes(connection: &Connection, parent: &str, limit: usize) -> Result<usize> {
    let sql = "DELETE FROM notes WHERE id IN (SELECT id FROM notes WHERE parent = ?1 LIMIT ?2)";
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    run(connection, sql, (parent, limit))
}

/// All documents; those without content were dropped by an earlier version.
pub(super) fn documents(connection: &Connection) -> Result<Vec<Document<SealedBytes>>> {
    let sql = "SELECT kind, key, key_id, nonce, bytes, expires, version FROM documents
               WHERE bytes IS NOT NULL";
    let mut statement = connection.prepare(sql)?;
    let read = |row: &Row<'_>| {
        Ok(Document {
            id: DocumentId::new(row.get::<_, String>(0)?, row.get::<_, String>(1)?),
            bytes: SealedBytes {
                key_id: row.get(2)?,
                nonce: row.get(3)?,
                bytes: row.get(4)?,
            },
            expires: row.get(5)?,
            version: row.get::<_, i64>(6)?.cast_unsigned(),
        })
    };
    statement.query_map((), read)?.collect()
}

/// Puts what a start needs in the place of what was there.
pub(super) fn set_start(
    connection: &Connection,
    catalog: Option<CatalogId>,
    documents: &[Document<SealedBytes>],
) -> Result<()> {
    let transaction = connection.unchecked_transaction()?;
    set_catalog(&transaction, catalog)?;
    run(&transaction, "DELETE FROM documents", ())?;
    for document in documents {
        let values = params![
            document.id.kind.as_str(),
            document.id.key,
            document.version.cast_signed(),
            document.bytes.key_id,
            document.bytes.nonce,
            document.bytes.bytes,
            document.expires,
        ];
        let sql = "INSERT INTO documents VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
        run(&transaction, sql, values)?;
    }
    transaction.commit()
}

fn run(connection: &Connection, sql: &str, values: impl rusqlite::Params) -> Result<usize> {
    connection.prepare_cached(sql)?.execute(values)
}

/// `copies` by the order in which they were put, the newest behind the others.
const TABLES: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    store BLOB NOT NULL,
    own BLOB NOT NULL,
    catalog BLOB,
    log BLOB,
    number INTEGER,
    mark INTEGER NOT NULL DEFAULT 0
) STRICT;

CREATE TABLE copies (
    id INTEGER PRIMARY KEY,
    pattern TEXT NOT NULL UNIQUE,
    -- a digest of its version, and of the versions and master keys of its
    -- credentials
    state INTEGER NOT NULL,
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

CREATE TABLE documents (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    version INTEGER NOT NULL,
    key_id INTEGER,
    nonce BLOB,
    bytes BLOB,
    expires INTEGER,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
";
