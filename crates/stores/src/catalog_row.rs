//! Rows of a catalog as the program's values: both databases have the same columns.

use std::sync::Arc;

use rustls_pki_types::CertificateDer;

use crate::fault::Fault;
use sekisho_certs::credential::{
    CredentialId, KeyType, SealedBytes, StoredCredential, split_chain,
};
use sekisho_certs::host::HostPattern;
use sekisho_certs::origin::Origin;
use sekisho_certs::record::{HostRecord, References, Site, Tenant, TlsPolicy};
use sekisho_certs::store::{Document, DocumentId, reversed};

/// A row of SQLite or PostgreSQL. NULL is none.
pub(crate) trait CatalogRow {
    /// Error of the database's client library.
    type Error;

    fn integer(&self, column: usize) -> Step<Option<i64>, Self>;
    fn flag(&self, column: usize) -> Step<bool, Self>;
    fn text(&self, column: usize) -> Step<Option<&str>, Self>;
    fn bytes(&self, column: usize) -> Step<Option<&[u8]>, Self>;

    /// Returns a document's text. Bytes that are not UTF-8 give one that is no JSON, and can
    /// be shown.
    fn document(&self, column: usize) -> Step<Arc<str>, Self>;
}

/// Result of reading a row.
pub(crate) type Step<T, R> = Result<T, Fault<<R as CatalogRow>::Error>>;

/// Columns of a host record, under the table's short name `h`. Its pattern stands elsewhere.
macro_rules! host_columns {
    () => {
        "h.tenant, h.site_format, h.site, h.tls, h.disabled, h.version, \
         h.ecdsa, h.ed25519, h.rsa, h.suspended, h.origin, h.origin_version"
    };
}
pub(crate) use host_columns;
/// Number of [`host_columns`]. The first one is never NULL.
pub(crate) const HOST_COLUMNS: usize = 12;

/// Reads a record from [`host_columns`] beginning at `first`. Another program or a later
/// version may have written any tenant and policy. What can't be read makes the record
/// unreadable: that fails its own host, not a list of hosts.
pub(crate) fn host<R: CatalogRow>(
    row: &R,
    first: usize,
    pattern: HostPattern,
) -> Step<HostRecord, R> {
    let text = |column: usize| row.text(first + column).ok().flatten();
    let tenant = match text(0) {
        Some("") => Ok(Tenant::default()),
        Some(name) => Tenant::parse(name),
        None => Err("its tenant is no text".into()),
    };
    let tls = text(3).and_then(TlsPolicy::parse);
    let tls = tls.ok_or_else(|| String::from("its TLS policy is not known"));
    let unreadable = tenant.as_ref().err().or(tls.as_ref().err());
    let site = match row.integer(first + 1)? {
        Some(format) => Some(Site {
            format: u32::try_from(format).unwrap_or(Site::NO_FORMAT),
            json: row.document(first + 2)?,
        }),
        None => None,
    };
    Ok(HostRecord {
        pattern,
        unreadable: unreadable.map(|why| why.as_str().into()),
        tenant: tenant.unwrap_or_default(),
        site,
        tls: tls.unwrap_or_default(),
        disabled: row.flag(first + 4)?,
        version: number(row, first + 5)?,
        references: references(row, first + 6)?,
        suspended: suspension(row, first + 9),
        origin: None,
    })
}

/// Reads a record from [`host_columns`], with its pattern after them, and its origin. Lookups
/// need none: a cached copy must equal the answer of the store.
pub(crate) fn listed_host<R: CatalogRow>(row: &R) -> Step<HostRecord, R> {
    let mut record = host(row, 0, pattern(row, HOST_COLUMNS)?)?;
    record.origin = origin(row, 10, record.version);
    Ok(record)
}

/// Reads an origin and its version from two columns. What can't be read is none, as is the
/// origin of an older version.
fn origin<R: CatalogRow>(row: &R, first: usize, version: u64) -> Option<Origin> {
    let source = row.text(first).ok().flatten()?;
    let stored = row.integer(first + 1).ok().flatten()?;
    let origin = Origin {
        source: source.into(),
        version: stored.cast_unsigned(),
    };
    origin.of_read(version)
}

/// Reads the page of a suspension: format and document, with a space between. Another text
/// suspends the host as well, by a page that nobody can read.
fn suspension<R: CatalogRow>(row: &R, column: usize) -> Option<Site> {
    let text = row.text(column).unwrap_or(Some(""))?;
    let (format, json) = text.split_once(' ').unwrap_or_default();
    Some(Site {
        format: format.parse().unwrap_or(Site::NO_FORMAT),
        json: json.into(),
    })
}

/// Returns the stored form of a suspension's page.
pub(crate) fn suspension_text(page: &Site) -> String {
    format!("{} {}", page.format, page.json)
}

/// Reads a tenant of hosts.
pub(crate) fn tenant<R: CatalogRow>(row: &R) -> Step<Tenant, R> {
    let name = text(row, 0)?;
    Tenant::parse(name).map_err(|why| Fault::Value(format!("the tenant {name:?}: {why}")))
}

/// Reads the pattern of a host from the first column, and makes the name by which
/// [`reversed`] lists know it.
pub(crate) fn unnamed_host<R: CatalogRow>(row: &R) -> Step<(String, String), R> {
    Ok((text(row, 0)?.to_owned(), reversed(&pattern(row, 0)?)))
}

/// Returns the name after which a list begins: the empty text comes before all names.
pub(crate) fn list_start(after: Option<&HostPattern>) -> String {
    after.map(HostPattern::to_string).unwrap_or_default()
}

/// Reads references from three columns, in the order of [`KeyType::ALL`].
pub(crate) fn references<R: CatalogRow>(row: &R, first: usize) -> Step<References, R> {
    let mut references = References::default();
    for (column, key_type) in KeyType::ALL.into_iter().enumerate() {
        references.set(key_type, credential_id(row, first + column)?);
    }
    Ok(references)
}

/// Columns of a credential, under the short names `c` and `i` of its tables.
macro_rules! credential_columns {
    () => {
        "c.version, c.leaf, i.chain, c.key_id, c.nonce, c.key, c.not_before, c.not_after, \
         c.id, c.key_type, c.origin, c.origin_version"
    };
}
pub(crate) use credential_columns;

/// Reads a credential from [`credential_columns`] beginning at `first`; its id and the
/// type of its key are known already.
pub(crate) fn credential<R: CatalogRow>(
    row: &R,
    first: usize,
    id: CredentialId,
    key_type: KeyType,
) -> Step<StoredCredential<SealedBytes>, R> {
    let mut chain = vec![CertificateDer::from(bytes(row, first + 1)?.to_vec())];
    if let Some(issuers) = row.bytes(first + 2)? {
        let issuers = split_chain(issuers)
            .ok_or_else(|| Fault::Value(format!("the issuers of {id} are cut")))?;
        chain.extend(issuers);
    }
    let version = number(row, first)?;
    Ok(StoredCredential {
        id,
        version,
        key_type,
        chain,
        key: sealed(row, first + 3)?,
        not_before: integer(row, first + 6)?,
        not_after: integer(row, first + 7)?,
        origin: origin(row, first + 10, version),
    })
}

/// Reads a credential from [`credential_columns`] beginning at `first`.
pub(crate) fn listed_credential<R: CatalogRow>(
    row: &R,
    first: usize,
) -> Step<StoredCredential<SealedBytes>, R> {
    let id = CredentialId::from_u64(number(row, first + 8)?);
    credential(row, first, id, key_type(row, first + 9)?)
}

/// Columns of a document.
macro_rules! document_columns {
    () => {
        "kind, key, key_id, nonce, bytes, expires, version"
    };
}
pub(crate) use document_columns;

/// Reads a document from [`document_columns`].
pub(crate) fn document<R: CatalogRow>(row: &R) -> Step<Document<SealedBytes>, R> {
    Ok(Document {
        id: document_id(row)?,
        bytes: sealed(row, 2)?,
        expires: row.integer(5)?,
        version: number(row, 6)?,
    })
}

/// Reads kind and key from the first columns.
pub(crate) fn document_id<R: CatalogRow>(row: &R) -> Step<DocumentId, R> {
    let (kind, key) = (text(row, 0)?.to_owned(), text(row, 1)?.to_owned());
    Ok(DocumentId::new(kind, key))
}

/// Reads key id, nonce and ciphertext from three columns.
pub(crate) fn sealed<R: CatalogRow>(row: &R, first: usize) -> Step<SealedBytes, R> {
    let key_id = u32::try_from(integer(row, first)?).ok();
    let nonce = bytes(row, first + 1)?.try_into().ok();
    let (Some(key_id), Some(nonce)) = (key_id, nonce) else {
        return Err(Fault::Value(
            "a sealed secret has no key id or nonce".into(),
        ));
    };
    Ok(SealedBytes {
        key_id,
        nonce,
        bytes: bytes(row, first + 2)?.to_vec(),
    })
}

/// Reads the type of a credential's key.
pub(crate) fn key_type<R: CatalogRow>(row: &R, column: usize) -> Step<KeyType, R> {
    let word = text(row, column)?;
    KeyType::parse(word).ok_or_else(|| Fault::Value(format!("unknown key type {word:?}")))
}

/// Reads a host's pattern.
pub(crate) fn pattern<R: CatalogRow>(row: &R, column: usize) -> Step<HostPattern, R> {
    let text = text(row, column)?;
    HostPattern::parse(text).map_err(|why| Fault::Value(format!("host {text:?}: {why}")))
}

/// Reads a credential's id; none from an empty column.
pub(crate) fn credential_id<R: CatalogRow>(
    row: &R,
    column: usize,
) -> Step<Option<CredentialId>, R> {
    let id = row.integer(column)?;
    Ok(id.map(|id| CredentialId::from_u64(id.cast_unsigned())))
}

/// Reads an id or a number of the log.
pub(crate) fn number<R: CatalogRow>(row: &R, column: usize) -> Step<u64, R> {
    Ok(integer(row, column)?.cast_unsigned())
}

pub(crate) fn integer<R: CatalogRow>(row: &R, column: usize) -> Step<i64, R> {
    there(row.integer(column)?, column)
}

pub(crate) fn text<R: CatalogRow>(row: &R, column: usize) -> Step<&str, R> {
    there(row.text(column)?, column)
}

fn bytes<R: CatalogRow>(row: &R, column: usize) -> Step<&[u8], R> {
    there(row.bytes(column)?, column)
}

fn there<T, E>(value: Option<T>, column: usize) -> Result<T, Fault<E>> {
    value.ok_or_else(|| Fault::Value(format!("column {column} is empty")))
}

/// Converts an id or a number to the databases' form: both stay below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Converts a caller's limit to the databases' form.
pub(crate) fn limit(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
