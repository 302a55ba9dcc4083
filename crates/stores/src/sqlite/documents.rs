//! The table of documents: that of the catalog, and of the disk cache.

use rusqlite::{Connection, Result, params};

use super::statements::run;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::store::Document;

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
    run(connection, sql, values)
}
