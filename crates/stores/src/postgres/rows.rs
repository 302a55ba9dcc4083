//! Rows as the program's values, and back.

use rustls_pki_types::CertificateDer;
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use super::fault::{Fault, Step};
use crate::host_row;
use sekisho_certs::credential::{
    CredentialId, KeyType, SealedBytes, StoredCredential, split_chain,
};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References, Site};
use sekisho_certs::store::{Document, DocumentId};

/// Reads a column's value.
pub(super) fn get<'a, T: FromSql<'a>>(row: &'a Row, column: usize) -> Step<T> {
    row.try_get(column)
        .map_err(|error| Fault::Value(format!("column {column}: {error}")))
}

/// Columns of a host record, under the table's short name `h`.
macro_rules! host_columns {
    () => {
        "h.pattern, h.tenant, h.site_format, h.site, h.tls, h.disabled, h.version, \
         h.ecdsa, h.ed25519, h.rsa"
    };
}
pub(super) use host_columns;
/// Number of [`host_columns`].
pub(super) const HOST_COLUMNS: usize = 10;

/// Reads a record from the first columns, which are [`host_columns`].
pub(super) fn host(row: &Row) -> Step<HostRecord> {
    host_from(row, 0)
}

/// Reads a record from [`host_columns`] beginning at `first`. A tenant or policy that
/// can't be read makes it unreadable: that fails its own host, not a list of hosts.
pub(super) fn host_from(row: &Row, first: usize) -> Step<HostRecord> {
    let pattern = pattern(row, first)?;
    let (tenant, tls) = (get(row, first + 1)?, get(row, first + 4)?);
    let owned = host_row::Owned::read(Some(tenant), Some(tls));
    let site = match get::<Option<i64>>(row, first + 2)? {
        None => None,
        Some(format) => Some(Site {
            format: u32::try_from(format).unwrap_or(Site::NO_FORMAT),
            // Without a document, its own host fails, not a list of hosts.
            json: get::<Option<&str>>(row, first + 3)?
                .unwrap_or_default()
                .into(),
        }),
    };
    Ok(HostRecord {
        tenant: owned.tenant,
        site,
        tls: owned.tls,
        unreadable: owned.unreadable,
        disabled: get(row, first + 5)?,
        version: number(row, first + 6)?,
        references: references(row, first + 7)?,
        pattern,
    })
}

/// Reads references from three columns, in the order of [`KeyType::ALL`].
pub(super) fn references(row: &Row, first: usize) -> Step<References> {
    let mut references = References::default();
    for (column, key_type) in KeyType::ALL.into_iter().enumerate() {
        references.set(key_type, credential_id(row, first + column)?);
    }
    Ok(references)
}

/// Columns of a credential, under the short names `c` and `i` of its
/// tables.
macro_rules! credential_columns {
    () => {
        "c.id, c.key_type, c.version, c.leaf, i.chain, c.key_id, c.nonce, c.key, \
         c.not_before, c.not_after"
    };
}
pub(super) use credential_columns;

/// Reads a credential from the first columns, which are [`credential_columns`].
pub(super) fn credential(row: &Row) -> Step<StoredCredential<SealedBytes>> {
    credential_from(row, 0)
}

/// Reads a credential from [`credential_columns`] beginning at `first`.
pub(super) fn credential_from(row: &Row, first: usize) -> Step<StoredCredential<SealedBytes>> {
    let id = CredentialId::from_u64(number(row, first)?);
    let mut chain = vec![CertificateDer::from(get::<Vec<u8>>(row, first + 3)?)];
    if let Some(issuers) = get::<Option<&[u8]>>(row, first + 4)? {
        let issuers = split_chain(issuers)
            .ok_or_else(|| Fault::Value(format!("the issuers of {id} are cut")))?;
        chain.extend(issuers);
    }
    Ok(StoredCredential {
        id,
        version: number(row, first + 2)?,
        key_type: key_type(row, first + 1)?,
        chain,
        key: sealed(row, first + 5)?,
        not_before: get(row, first + 8)?,
        not_after: get(row, first + 9)?,
    })
}

/// Columns of a document.
macro_rules! document_columns {
    () => {
        "kind, key, key_id, nonce, bytes, expires, version"
    };
}
pub(super) use document_columns;

/// Reads a document from [`document_columns`].
pub(super) fn document(row: &Row) -> Step<Document<SealedBytes>> {
    Ok(Document {
        id: document_id(row)?,
        bytes: sealed(row, 2)?,
        expires: get(row, 5)?,
        version: number(row, 6)?,
    })
}

/// Reads kind and key from the first columns.
pub(super) fn document_id(row: &Row) -> Step<DocumentId> {
    let (kind, key): (String, String) = (get(row, 0)?, get(row, 1)?);
    Ok(DocumentId::new(kind, key))
}

/// Reads key id, nonce and ciphertext from three columns.
pub(super) fn sealed(row: &Row, first: usize) -> Step<SealedBytes> {
    let key_id = u32::try_from(get::<i64>(row, first)?).ok();
    let nonce = get::<&[u8]>(row, first + 1)?.try_into().ok();
    let (Some(key_id), Some(nonce)) = (key_id, nonce) else {
        return Err(Fault::Value(
            "a sealed secret has no key id or nonce".into(),
        ));
    };
    Ok(SealedBytes {
        key_id,
        nonce,
        bytes: get(row, first + 2)?,
    })
}

/// Reads the type of a credential's key.
pub(super) fn key_type(row: &Row, column: usize) -> Step<KeyType> {
    let word = get(row, column)?;
    KeyType::parse(word).ok_or_else(|| Fault::Value(format!("unknown key type {word:?}")))
}

/// Reads a host's pattern.
pub(super) fn pattern(row: &Row, column: usize) -> Step<HostPattern> {
    let text = get(row, column)?;
    HostPattern::parse(text).map_err(|why| Fault::Value(format!("host {text:?}: {why}")))
}

/// Reads a credential's id; none from an empty column.
pub(super) fn credential_id(row: &Row, column: usize) -> Step<Option<CredentialId>> {
    let id: Option<i64> = get(row, column)?;
    Ok(id.map(|id| CredentialId::from_u64(id.cast_unsigned())))
}

/// Reads the 16 bytes that identify a catalog or a log.
pub(super) fn id(row: &Row, column: usize) -> Step<[u8; 16]> {
    let bytes: &[u8] = get(row, column)?;
    let id = bytes.try_into();
    id.map_err(|_| Fault::Value("an identity has not 16 bytes".into()))
}

/// Reads a number of the log.
pub(super) fn number(row: &Row, column: usize) -> Step<u64> {
    Ok(get::<i64>(row, column)?.cast_unsigned())
}

/// Converts an id or a number to the database's form: both stay below 2^63.
pub(super) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a caller's limit to the database's form.
pub(super) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}

/// Makes the error for a missing row of `meta`, which each store has.
pub(super) fn no_meta() -> Fault {
    Fault::Value("the table meta is empty".into())
}
