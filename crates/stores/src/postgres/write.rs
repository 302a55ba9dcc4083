//! Writing: a batch is one transaction of three round trips, however large it
//! is. It begins with the lock of the row that counts changes: from there on
//! no other writer takes a number until our commit.

mod reseal;
pub(super) mod send;

use futures_util::future::{try_join, try_join5};
use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::Step;
use super::lineages;
use super::params::column;
use super::read::now;
use super::rows::{self, signed};
use crate::plan::{Plan, Stored, Subjects};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::References;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{DocumentId, Subject, What, Write};

/// Applies a batch, whole or not at all. `keep` changes stay in the log;
/// `now_ms` is none for the database's own clock.
pub(super) async fn write(
    on: &Connection,
    batch: Batch,
    now_ms: Option<i64>,
    keep: u64,
) -> Step<Written> {
    let (writes, reseals) = batch.into_parts();
    let stored = begin(on, &writes, now_ms).await?;
    let mut plan = match Plan::new(stored, writes) {
        Ok(plan) => plan,
        Err(conflict) => {
            on.run("ROLLBACK").await?;
            return Err(conflict.into());
        }
    };
    reseal::reseal(on, &reseals).await?;
    for orphan in send::contents(on, &plan).await? {
        plan.announce(Subject::Credential(orphan), What::Removed);
    }
    let is_announced = !plan.changes.is_empty();
    match is_announced {
        true => send::changes(on, &plan, keep, seconds(now_ms)).await?,
        false => on.run("COMMIT").await?,
    }
    Ok(Written {
        number: plan.stored.number,
        is_announced,
    })
}

/// Outcome of a write.
pub(super) struct Written {
    /// The number of the log's last change.
    pub(super) number: u64,
    /// True if it made changes.
    pub(super) is_announced: bool,
}

fn seconds(ms: Option<i64>) -> Option<i64> {
    ms.map(|ms| ms.div_euclid(1000))
}

/// Takes the lock, and reads what is stored of the things that are written.
async fn begin(
    on: &Connection,
    writes: &[Write<SealedBytes>],
    now_ms: Option<i64>,
) -> Step<Stored> {
    let subjects = Subjects::of(writes);
    let now = seconds(now_ms);
    // Sent together and done in this order: what is read is read under the
    // lock.
    let (((), meta), credentials, hosts, documents, lineages) = try_join5(
        try_join(on.run(BEGIN), on.query(LOCK, &[])),
        on.list(
            CREDENTIALS,
            &[&column(&subjects.credentials, |id| signed(id.as_u64()))],
            credential,
        ),
        on.list(
            HOSTS,
            &[&column(&subjects.hosts, |pattern| pattern.as_str())],
            host,
        ),
        on.list(
            DOCUMENTS,
            &[
                &column(&subjects.documents, |id| id.kind.as_str()),
                &column(&subjects.documents, |id| &*id.key),
                &now,
            ],
            document,
        ),
        lineages::held(on, &subjects.lineages, now_ms),
    )
    .await?;
    let meta = meta.first().ok_or_else(rows::no_meta)?;
    Ok(Stored {
        number: rows::number(meta, 0)?,
        forgotten: rows::number(meta, 1)?,
        credentials: credentials.into_iter().collect(),
        hosts: hosts.into_iter().collect(),
        documents: documents.into_iter().collect(),
        lineages: lineages.into_iter().collect(),
    })
}

fn credential(row: &Row) -> Step<(CredentialId, (u64, KeyType))> {
    let id = CredentialId::from_u64(rows::number(row, 0)?);
    Ok((id, (rows::number(row, 1)?, rows::key_type(row, 2)?)))
}

fn host(row: &Row) -> Step<(HostPattern, (u64, References))> {
    let references = rows::references(row, 2)?;
    Ok((rows::pattern(row, 0)?, (rows::number(row, 1)?, references)))
}

fn document(row: &Row) -> Step<(DocumentId, u64)> {
    Ok((rows::document_id(row)?, rows::number(row, 2)?))
}

/// Bounds what a writer that hangs keeps from others: its server ends it.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL statement_timeout = '30s';
    SET LOCAL idle_in_transaction_session_timeout = '10s'";

const LOCK: &str = "SELECT number, forgotten FROM sekisho.meta FOR UPDATE";

const CREDENTIALS: &str =
    "SELECT id, version, key_type FROM sekisho.credentials WHERE id = ANY ($1)";

const HOSTS: &str =
    "SELECT pattern, version, ecdsa, ed25519, rsa FROM sekisho.hosts WHERE pattern = ANY ($1)";

const DOCUMENTS: &str = concat!(
    "SELECT d.kind, d.key, d.version
         FROM unnest($1::text[], $2::text[]) AS asked (kind, key)
         JOIN sekisho.documents d ON d.kind = asked.kind AND d.key = asked.key
         WHERE d.expires IS NULL OR d.expires > ",
    now!("$3")
);
