//! Rows as the program's values, and back.

use std::path::Path;
use std::sync::Arc;

use rusqlite::Row;
use rusqlite::types::{FromSqlError, ValueRef};
use rustls_pki_types::CertificateDer;

use super::documents;
use super::fault::explain;
use crate::host_row;
use sekisho_certs::credential::{
    CredentialId, KeyType, SealedBytes, StoredCredential, split_chain,
};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References, Site};
use sekisho_certs::store::{Result, StoreError};

/// Error of a step, before the file's name is known.
pub(super) enum Fault {
    /// SQLite's own.
    Sql(rusqlite::Error),
    /// Ours, complete.
    Store(StoreError),
    /// A stored value that this program can't have written.
    Value(String),
}

impl Fault {
    pub(super) fn at(self, path: &Path) -> StoreError {
        match self {
            Self::Sql(error) => explain(path, &error),
            Self::Store(error) => error,
            Self::Value(what) => {
                StoreError::Corrupt(format!("{} is damaged: {what}", path.display()).into())
            }
        }
    }
}

impl From<rusqlite::Error> for Fault {
    fn from(error: rusqlite::Error) -> Self {
        Self::Sql(error)
    }
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// Result of a step of a call.
pub(super) type Step<T> = std::result::Result<T, Fault>;

/// Adds the file's name to a step's fault.
pub(super) fn at<T>(path: &Path, step: Step<T>) -> Result<T> {
    step.map_err(|fault| fault.at(path))
}

/// The columns of a host record, under the table's short name.
pub(super) fn host_columns(table: &str) -> String {
    columns(table, &HOST)
}

/// How many they are.
pub(super) const HOST_COLUMNS: usize = HOST.len();

const HOST: [&str; 9] = [
    "tenant",
    "site_format",
    "site",
    "tls",
    "disabled",
    "version",
    "ecdsa",
    "ed25519",
    "rsa",
];

/// The columns of a credential, under the short names of its tables.
pub(super) fn credential_columns(table: &str, issuers: &str) -> String {
    format!("{}, {issuers}.chain", columns(table, &CREDENTIAL))
}

/// How many they are.
pub(super) const CREDENTIAL_COLUMNS: usize = CREDENTIAL.len() + 1;

const CREDENTIAL: [&str; 7] = [
    "version",
    "leaf",
    "key_id",
    "nonce",
    "key",
    "not_before",
    "not_after",
];

fn columns(table: &str, names: &[&str]) -> String {
    let names = names.iter().map(|name| format!("{table}.{name}"));
    names.collect::<Vec<_>>().join(", ")
}

/// A record from [`host_columns`] beginning at `first`. A tenant or policy that can't be
/// read makes it unreadable: that fails its own host, not a list of hosts.
pub(super) fn host(row: &Row<'_>, first: usize, pattern: HostPattern) -> Step<HostRecord> {
    let word = |column| row.get_ref(column).map(|value| value.as_str().ok());
    let owned = host_row::Owned::read(word(first)?, word(first + 3)?);
    let format = match row.get_ref(first + 1)? {
        ValueRef::Null => None,
        ValueRef::Integer(format) => u32::try_from(format).ok().or(Some(Site::NO_FORMAT)),
        _ => Some(Site::NO_FORMAT),
    };
    let site = match format {
        None => None,
        Some(format) => Some(Site {
            format,
            json: document(row, first + 2)?,
        }),
    };
    Ok(HostRecord {
        pattern,
        tenant: owned.tenant,
        site,
        tls: owned.tls,
        unreadable: owned.unreadable,
        disabled: row.get(first + 4)?,
        references: references(row, first + 6)?,
        version: row.get(first + 5)?,
    })
}

/// A record from [`host_columns`], with its pattern behind them.
pub(super) fn listed_host(row: &Row<'_>) -> Step<HostRecord> {
    host(row, 0, pattern(row, HOST_COLUMNS)?)
}

/// A credential from [`credential_columns`] beginning at `first`; none where
/// an outer join found no row.
pub(super) fn credential(
    row: &Row<'_>,
    first: usize,
    id: CredentialId,
    key_type: KeyType,
) -> Step<Option<StoredCredential<SealedBytes>>> {
    if row.get_ref(first)?.data_type() == rusqlite::types::Type::Null {
        return Ok(None);
    }
    let mut chain = vec![CertificateDer::from(blob(row, first + 1)?.to_vec())];
    if let Some(issuers) = row.get_ref(first + 7)?.as_blob_or_null().map_err(kind)? {
        let issuers = split_chain(issuers)
            .ok_or_else(|| Fault::Value(format!("the issuers of {id} are cut")))?;
        chain.extend(issuers);
    }
    Ok(Some(StoredCredential {
        id,
        version: row.get(first)?,
        key_type,
        chain,
        key: documents::sealed(row, first + 2)?,
        not_before: row.get(first + 5)?,
        not_after: row.get(first + 6)?,
    }))
}

/// A credential from [`credential_columns`], with its id and key type behind
/// them.
pub(super) fn listed_credential(row: &Row<'_>) -> Step<StoredCredential<SealedBytes>> {
    let id = CredentialId::from_u64(row.get(CREDENTIAL_COLUMNS)?);
    let credential = credential(row, 0, id, key_type(row, CREDENTIAL_COLUMNS + 1)?)?;
    credential.ok_or_else(|| Fault::Value(format!("{id} has no version")))
}

/// Reads the type of a credential's key.
pub(super) fn key_type(row: &Row<'_>, column: usize) -> Step<KeyType> {
    let word = text(row, column)?;
    KeyType::parse(word).ok_or_else(|| Fault::Value(format!("unknown key type {word:?}")))
}

/// A stored pattern.
pub(super) fn pattern(row: &Row<'_>, column: usize) -> Step<HostPattern> {
    let text = text(row, column)?;
    HostPattern::parse(text).map_err(|why| Fault::Value(format!("host {text:?}: {why}")))
}

/// A record's references, in the order of [`KeyType::ALL`].
pub(super) fn references(row: &Row<'_>, first: usize) -> rusqlite::Result<References> {
    let mut references = References::default();
    for (column, key_type) in KeyType::ALL.into_iter().enumerate() {
        let id = row.get::<_, Option<_>>(first + column)?;
        references.set(key_type, id.map(CredentialId::from_u64));
    }
    Ok(references)
}

/// A number of a caller as SQLite takes it.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A caller's limit as SQLite takes it.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

pub(super) fn text<'a>(row: &'a Row<'_>, column: usize) -> Step<&'a str> {
    row.get_ref(column)?.as_str().map_err(kind)
}

/// Returns the document of a site. Bytes that are not UTF-8, and values that are no
/// text, become a text that is not JSON: the document then fails its own host, not a
/// list of hosts.
fn document(row: &Row<'_>, column: usize) -> Step<Arc<str>> {
    let bytes = row.get_ref(column)?.as_bytes().unwrap_or_default();
    Ok(match std::str::from_utf8(bytes) {
        Ok(text) => text.into(),
        Err(_) => format!("\u{fffd}{}", String::from_utf8_lossy(bytes)).into(),
    })
}

fn blob<'a>(row: &'a Row<'_>, column: usize) -> Step<&'a [u8]> {
    row.get_ref(column)?.as_blob().map_err(kind)
}

/// A value of another kind than its column's.
pub(super) fn kind(error: FromSqlError) -> Fault {
    Fault::Sql(error.into())
}
