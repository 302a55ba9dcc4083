//! The table of documents: that of the catalog, and of the disk cache.

use rusqlite::{Connection, Result, Row, params};

use super::statements::run;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::store::{Document, DocumentId};

macro_rules! table {
    () => {
        "
CREATE TABLE documents (
    kind TEXT NOT NULL,
    key TEXT NOT NULL,
    key_id INTEGER NOT NULL,
    nonce BLOB NOT NULL,
    bytes BLOB NOT NULL,
    expires INTEGER,
    version INTEGER NOT NULL,
    PRIMARY KEY (kind, key)
) STRICT, WITHOUT ROWID;
"
    };
}
pub(crate) use table;

macro_rules! columns {
    () => {
        "kind, key, key_id, nonce, bytes, expires, version"
    };
}
pub(crate) use columns;

/// Reads a document from [`columns`].
pub(crate) fn read(row: &Row<'_>) -> Result<Document<SealedBytes>> {
    Ok(Document {
        id: id(row, 0)?,
        bytes: sealed(row, 2)?,
        expires: row.get(5)?,
        version: row.get(6)?,
    })
}

/// Reads kind and key from two columns.
pub(super) fn id(row: &Row<'_>, first: usize) -> Result<DocumentId> {
    let (kind, key): (String, String) = (row.get(first)?, row.get(first + 1)?);
    Ok(DocumentId::new(kind, key))
}

/// Reads key id, nonce and ciphertext from three columns.
pub(super) fn sealed(row: &Row<'_>, first: usize) -> Result<SealedBytes> {
    Ok(SealedBytes {
        key_id: row.get(first)?,
        nonce: row.get(first + 1)?,
        bytes: row.get(first + 2)?,
    })
}

/// Writes a document over the one before it.
pub(crate) fn put(connection: &Connection, document: &Document<SealedBytes>) -> Result<()> {
    let SealedBytes {
        key_id,
        nonce,
        bytes,
    } = &document.bytes;
    let sql = "INSERT OR REPLACE INTO documents (kind, key, key_id, nonce, bytes, expires, version)
               VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let (kind, key) = (document.id.kind.as_str(), &document.id.key);
    let (expires, version) = (document.expires, document.version);
    let values = params![kind, key, key_id, nonce, bytes, expires, version];
    run(connection, sql, values).map(|_| ())
}
