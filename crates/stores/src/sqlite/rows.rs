//! Rows as the program's values, and back.

use std::path::Path;

use rusqlite::Row;
use rusqlite::types::FromSqlError;
use rustls_pki_types::CertificateDer;

use super::documents;
use super::fault::explain;
use sekisho_certs::credential::{
    CredentialId, KeyType, SealedBytes, StoredCredential, split_chain,
};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References, Site, Tenant, TlsPolicy};
use sekisho_certs::store::{Result, StoreError};

/// What a statement's run can fail with, before the file's name is known.
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

/// What a step of a call gives.
pub(super) type Step<T> = std::result::Result<T, Fault>;

/// Adds the file's name to a step's fault.
pub(super) fn at<T>(path: &Path, step: Step<T>) -> Result<T> {
    step.map_err(|fault| fault.at(path))
}

/// The columns of a host record, under the table's short name.
macro_rules! host_columns {
    ($table:literal) => {
        concat!(
            $table,
            ".tenant, ",
            $table,
            ".site_format, ",
            $table,
            ".site, ",
            $table,
            ".tls, ",
            $table,
            ".disabled, ",
            $table,
            ".version, ",
            $table,
            ".ecdsa, ",
            $table,
            ".ed25519, ",
            $table,
            ".rsa"
        )
    };
}
pub(super) use host_columns;
/// How many they are.
pub(super) const HOST_COLUMNS: usize = 9;

/// The columns of a credential, under the short names of its tables.
macro_rules! credential_columns {
    ($table:literal, $issuers:literal) => {
        concat!(
            $table,
            ".version, ",
            $table,
            ".leaf, ",
            $issuers,
            ".chain, ",
            $table,
            ".key_id, ",
            $table,
            ".nonce, ",
            $table,
            ".key, ",
            $table,
            ".not_before, ",
            $table,
            ".not_after, ",
            $table,
            ".renew_at"
        )
    };
}
pub(super) use credential_columns;
/// How many they are.
pub(super) const CREDENTIAL_COLUMNS: usize = 9;

/// The column of a record that refers to a credential of that type.
pub(super) fn column(key_type: KeyType) -> &'static str {
    key_type.as_str()
}

/// A record from [`host_columns`] beginning at `first`.
pub(super) fn host(row: &Row<'_>, first: usize, pattern: HostPattern) -> Step<HostRecord> {
    let bad = |what: &str| Fault::Value(format!("host {pattern}: {what}"));
    let tenant = match text(row, first)? {
        "" => Tenant::default(),
        name => Tenant::parse(name).map_err(|why| bad(&why))?,
    };
    let site = match row.get::<_, Option<u32>>(first + 1)? {
        None => None,
        Some(format) => Some(Site {
            format,
            json: text(row, first + 2)?.into(),
        }),
    };
    let tls = TlsPolicy::parse(text(row, first + 3)?)
        .ok_or_else(|| bad("its TLS policy is not known"))?;
    let mut references = References::default();
    for (column, key_type) in KeyType::ALL.into_iter().enumerate() {
        references.set(key_type, id(row, first + 6 + column)?);
    }
    Ok(HostRecord {
        pattern,
        tenant,
        site,
        tls,
        disabled: row.get(first + 4)?,
        references,
        version: number(row, first + 5)?,
    })
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
    if let Some(issuers) = row.get_ref(first + 2)?.as_blob_or_null().map_err(kind)? {
        let issuers = split_chain(issuers)
            .ok_or_else(|| Fault::Value(format!("the issuers of {id} are cut")))?;
        chain.extend(issuers);
    }
    Ok(Some(StoredCredential {
        id,
        version: number(row, first)?,
        key_type,
        chain,
        key: documents::sealed(row, first + 3)?,
        not_before: row.get(first + 6)?,
        not_after: row.get(first + 7)?,
        renew_at: row.get(first + 8)?,
    }))
}

/// A stored pattern.
pub(super) fn pattern(row: &Row<'_>, column: usize) -> Step<HostPattern> {
    let text = text(row, column)?;
    HostPattern::parse(text).map_err(|why| Fault::Value(format!("host {text:?}: {why}")))
}

/// A credential's id, where there is one.
pub(super) fn id(row: &Row<'_>, column: usize) -> Step<Option<CredentialId>> {
    let id: Option<i64> = row.get(column)?;
    Ok(id.map(|id| CredentialId::from_u64(id.cast_unsigned())))
}

/// A number of the log.
pub(super) fn number(row: &Row<'_>, column: usize) -> Step<u64> {
    Ok(row.get::<_, i64>(column)?.cast_unsigned())
}

/// An id or a number as SQLite holds it: both stay below 2^63.
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

fn blob<'a>(row: &'a Row<'_>, column: usize) -> Step<&'a [u8]> {
    row.get_ref(column)?.as_blob().map_err(kind)
}

/// A value of another kind than its column's.
fn kind(error: FromSqlError) -> Fault {
    Fault::Sql(error.into())
}
