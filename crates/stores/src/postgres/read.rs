//! Statements of lists and single rows: each call is one, so it reads one state.

use std::time::Duration;

use crate::catalog_row::{credential_columns, document_columns, host_columns};

pub(super) const HOSTS: &str = concat!(
    "SELECT ",
    host_columns!(),
    ", h.pattern FROM sekisho.hosts h WHERE h.pattern = ANY ($1)"
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

/// Milliseconds since the Unix epoch: the given ones, else the database's.
macro_rules! now_ms {
    ($given:literal) => {
        concat!(
            "COALESCE(",
            $given,
            ", floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint)"
        )
    };
}
pub(super) use now_ms;

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

/// Counts few lineages, and estimates many: each look at one writes its row, so that a
/// count of 10 million reads gigabytes. The table's statistics are as of the last vacuum,
/// which comes after one change in a hundred. Without any, a page is taken to hold 20 rows,
/// each with an order under way.
pub(super) const COUNT_LINEAGES: &str = "
WITH few AS MATERIALIZED (
    SELECT count(*) AS n FROM (SELECT FROM sekisho.lineages LIMIT 10001) l
)
SELECT CASE WHEN n <= 10000 THEN n ELSE greatest(n, (
    SELECT CASE WHEN reltuples > 0 THEN reltuples::bigint
        ELSE pg_relation_size(oid) / 8192 * 20 END
    FROM pg_class WHERE oid = 'sekisho.lineages'::regclass)) END
FROM few";

/// Counts in the index, up to a bound.
pub(super) const COUNT_DUE: &str = "SELECT count(*) FROM (SELECT FROM sekisho.lineages
        WHERE due <= coalesce($1, extract(epoch FROM clock_timestamp())::bigint) LIMIT $2) l";

/// Longer than a lookup may take: nobody waits for the count, and its first 10,000 rows may
/// lie anywhere on the disk.
pub(super) const COUNT_TIMEOUT: Duration = Duration::from_secs(10);
