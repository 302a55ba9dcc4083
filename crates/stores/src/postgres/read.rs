//! Reading lists and single rows: each call is one statement, so one state.

use super::connection::Connection;
use super::fault::Step;
use super::rows::{self, credential_columns, document_columns, host_columns, signed};
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Document, DocumentId, DocumentKind};

pub(super) async fn hosts(from: &Connection, patterns: &[HostPattern]) -> Step<Vec<HostRecord>> {
    let patterns: Vec<_> = patterns.iter().map(HostPattern::as_str).collect();
    let rows = from.query(HOSTS, &[&patterns]).await?;
    rows.iter().map(|row| rows::host(row, 0)).collect()
}

pub(super) async fn list_hosts(
    from: &Connection,
    after: Option<&HostPattern>,
    limit: usize,
) -> Step<Vec<HostRecord>> {
    let after = after.map_or("", HostPattern::as_str);
    let limit = rows::limit(limit);
    let rows = from.query(LIST_HOSTS, &[&after, &limit]).await?;
    rows.iter().map(|row| rows::host(row, 0)).collect()
}

pub(super) async fn hosts_of(
    from: &Connection,
    id: CredentialId,
    after: Option<&HostPattern>,
    limit: usize,
) -> Step<Vec<HostPattern>> {
    let (id, after) = (signed(id.as_u64()), after.map_or("", HostPattern::as_str));
    let limit = rows::limit(limit);
    let rows = from.query(HOSTS_OF, &[&id, &after, &limit]).await?;
    rows.iter().map(|row| rows::pattern(row, 0)).collect()
}

pub(super) async fn credentials(
    from: &Connection,
    ids: &[CredentialId],
) -> Step<Vec<StoredCredential<SealedBytes>>> {
    let ids: Vec<_> = ids.iter().map(|id| signed(id.as_u64())).collect();
    let rows = from.query(CREDENTIALS, &[&ids]).await?;
    let listed = rows.iter().map(|row| rows::credential(row, 0));
    listed.filter_map(Step::transpose).collect()
}

pub(super) async fn list_credentials(
    from: &Connection,
    after: Option<CredentialId>,
    limit: usize,
) -> Step<Vec<StoredCredential<SealedBytes>>> {
    let after = after.map_or(-1, |id| signed(id.as_u64()));
    let limit = rows::limit(limit);
    let rows = from.query(LIST_CREDENTIALS, &[&after, &limit]).await?;
    let listed = rows.iter().map(|row| rows::credential(row, 0));
    listed.filter_map(Step::transpose).collect()
}

/// `now` is none for the database's own clock.
pub(super) async fn document(
    from: &Connection,
    id: &DocumentId,
    now: Option<i64>,
) -> Step<Option<Document<SealedBytes>>> {
    let rows = from
        .query(DOCUMENT, &[&id.kind.as_str(), &&*id.key, &now])
        .await?;
    let row = rows.first();
    row.map(|row| rows::document(row, &id.kind)).transpose()
}

pub(super) async fn list_documents(
    from: &Connection,
    kind: &DocumentKind,
    after: Option<&str>,
    limit: usize,
    now: Option<i64>,
) -> Step<Vec<Document<SealedBytes>>> {
    let (limit, key, is_first) = (rows::limit(limit), after.unwrap_or(""), after.is_none());
    let rows = from
        .query(
            LIST_DOCUMENTS,
            &[&kind.as_str(), &key, &is_first, &now, &limit],
        )
        .await?;
    rows.iter().map(|row| rows::document(row, kind)).collect()
}

pub(super) async fn next_document_kind(
    from: &Connection,
    after: &str,
) -> Step<Option<DocumentKind>> {
    let rows = from.query(NEXT_KIND, &[&after]).await?;
    let kind = rows.first().map(|row| rows::get::<String>(row, 0));
    Ok(kind.transpose()?.map(DocumentKind::from))
}

pub(super) const HOSTS: &str = concat!(
    "SELECT ",
    host_columns!(),
    " FROM sekisho.hosts h WHERE h.pattern = ANY ($1)"
);

pub(super) const LIST_HOSTS: &str = concat!(
    "SELECT ",
    host_columns!(),
    " FROM sekisho.hosts h WHERE h.pattern > $1 ORDER BY h.pattern LIMIT $2"
);

/// At most one of the columns holds an id, since a credential has one type.
pub(super) const HOSTS_OF: &str =
    "SELECT pattern FROM sekisho.hosts WHERE ecdsa = $1 AND pattern > $2
           UNION ALL SELECT pattern FROM sekisho.hosts WHERE ed25519 = $1 AND pattern > $2
           UNION ALL SELECT pattern FROM sekisho.hosts WHERE rsa = $1 AND pattern > $2
           ORDER BY pattern LIMIT $3";

pub(super) const CREDENTIALS: &str = concat!(
    "SELECT ",
    credential_columns!(),
    " FROM sekisho.credentials c LEFT JOIN sekisho.issuers i ON i.id = c.issuer
          WHERE c.id = ANY ($1)"
);

pub(super) const LIST_CREDENTIALS: &str = concat!(
    "SELECT ",
    credential_columns!(),
    " FROM sekisho.credentials c LEFT JOIN sekisho.issuers i ON i.id = c.issuer
          WHERE c.id > $1 ORDER BY c.id LIMIT $2"
);

/// Seconds since the Unix epoch: the given ones, else the database's.
macro_rules! now {
    ($given:literal) => {
        concat!(
            "COALESCE(",
            $given,
            ", floor(extract(epoch FROM statement_timestamp()))::bigint)"
        )
    };
}
pub(super) use now;

pub(super) const DOCUMENT: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM sekisho.documents
          WHERE kind = $1 AND key = $2 AND (expires IS NULL OR expires > ",
    now!("$3"),
    ")"
);

/// The first page begins with the empty key.
pub(super) const LIST_DOCUMENTS: &str = concat!(
    "SELECT ",
    document_columns!(),
    " FROM sekisho.documents
          WHERE kind = $1 AND key >= $2 AND ($3 OR key > $2) AND (expires IS NULL OR expires > ",
    now!("$4"),
    ") ORDER BY key LIMIT $5"
);

pub(super) const NEXT_KIND: &str =
    "SELECT kind FROM sekisho.documents WHERE kind > $1 ORDER BY kind LIMIT 1";
