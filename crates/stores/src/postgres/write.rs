//! Writing: a batch is one transaction of three round trips, however large it is.
//!
//! One that may announce something begins with the lock of the row that counts changes:
//! from there on no other such writer takes a number until our commit. Any other batch,
//! of lineages, challenges or quotas, waits only for writers of the same rows.

pub(super) mod send;

use std::collections::HashSet;

use futures_util::future::{try_join, try_join5};
use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::{Fault, Step};
use super::lineages;
use super::params::column;
use super::read::now;
use super::rows::get;
use crate::catalog_row::{self, signed};
use crate::plan::{Plan, Stored, Subjects};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::LineageName;
use sekisho_certs::record::References;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{DocumentId, Reseal, StoreError, Subject, What, Write};

/// Applies a batch, whole or not at all. `keep` changes stay in the log;
/// `now_ms` is none for the database's own clock.
pub(super) async fn write(
    on: &Connection,
    batch: Batch,
    now_ms: Option<i64>,
    keep: u64,
) -> Step<Written> {
    let (writes, reseals) = batch.into_parts();
    for _ in 0..MAX_ATTEMPTS {
        if let Some(written) = attempt(on, writes.clone(), &reseals, now_ms, keep).await? {
            return Ok(written);
        }
    }
    let text = "others made and removed the same rows meanwhile, again and again";
    Err(StoreError::Conflict(text.into()).into())
}

/// Applies a batch; none if another writer made a row meanwhile that this one had found
/// absent. The batch is then judged again by what that row holds.
async fn attempt(
    on: &Connection,
    writes: Vec<Write<SealedBytes>>,
    reseals: &[Reseal],
    now_ms: Option<i64>,
    keep: u64,
) -> Step<Option<Written>> {
    let (stored, there) = begin(on, &writes, now_ms).await?;
    let mut plan = match Plan::new(stored, writes) {
        Ok(plan) => plan,
        Err(conflict) => {
            on.run("ROLLBACK").await?;
            return Err(conflict.into());
        }
    };
    send::reseal(on, reseals).await?;
    let Some(orphans) = send::contents(on, &plan, &there).await? else {
        on.run("ROLLBACK").await?;
        return Ok(None);
    };
    for orphan in orphans {
        plan.announce(Subject::Credential(orphan), What::Removed);
    }
    let is_announced = !plan.changes.is_empty();
    match is_announced {
        true => send::changes(on, &plan, keep, seconds(now_ms)).await?,
        false => on.run("COMMIT").await?,
    }
    Ok(Some(Written {
        number: plan.stored.number,
        is_announced,
    }))
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

/// Rows that were there when a batch began, and are locked: those of expired documents
/// too, which are absent to all others.
#[derive(Debug, Default)]
pub(super) struct There {
    pub(super) documents: HashSet<DocumentId>,
    pub(super) lineages: HashSet<LineageName>,
}

/// Takes the locks, and reads what is stored of the things that are written.
async fn begin(
    on: &Connection,
    writes: &[Write<SealedBytes>],
    now_ms: Option<i64>,
) -> Step<(Stored, There)> {
    let subjects = Subjects::of(writes);
    let number = match subjects.may_announce() {
        true => LOCK,
        false => NUMBER,
    };
    let ids = column(&subjects.credentials, |id| signed(id.as_u64()));
    let patterns = column(&subjects.hosts, |pattern| pattern.as_str());
    // Sent together and done in this order: what is read is read under the
    // locks.
    let (((), meta), credentials, hosts, documents, lineages) = try_join5(
        try_join(on.run(BEGIN), on.query(number, &[])),
        on.list_if(!ids.is_empty(), CREDENTIALS, &[&ids], credential),
        on.list_if(!patterns.is_empty(), HOSTS, &[&patterns], host),
        documents(on, &subjects, seconds(now_ms)),
        lineages::held(on, &subjects.lineages, now_ms),
    )
    .await?;
    let meta = meta.first().ok_or_else(Fault::no_meta)?;
    let there = There {
        documents: documents.iter().map(|one| one.0.clone()).collect(),
        lineages: lineages.iter().map(|one| one.0.clone()).collect(),
    };
    let alive = documents.into_iter().filter(|one| one.2);
    let stored = Stored {
        number: catalog_row::number(meta, 0)?,
        forgotten: catalog_row::number(meta, 1)?,
        credentials: credentials.into_iter().collect(),
        hosts: hosts.into_iter().collect(),
        documents: alive.map(|(id, version, _)| (id, version)).collect(),
        lineages: lineages.into_iter().collect(),
    };
    Ok((stored, there))
}

/// Reads the documents that a batch writes or requires, with their versions and whether
/// they are alive. Locks both: a required one shared, so that many batches may require
/// the check value at once.
async fn documents(
    on: &Connection,
    subjects: &Subjects<'_>,
    now: Option<i64>,
) -> Step<Vec<(DocumentId, u64, bool)>> {
    let read = async |ids: &[&DocumentId], text| {
        let kinds = column(ids, |id| id.kind.as_str());
        let keys = column(ids, |id| &*id.key);
        on.list_if(!ids.is_empty(), text, &[&kinds, &keys, &now], document)
            .await
    };
    let (mut all, written) = try_join(
        read(&subjects.required, REQUIRED_DOCUMENTS),
        read(&subjects.documents, DOCUMENTS),
    )
    .await?;
    all.extend(written);
    Ok(all)
}

fn credential(row: &Row) -> Step<(CredentialId, (u64, KeyType))> {
    let id = CredentialId::from_u64(catalog_row::number(row, 0)?);
    Ok((
        id,
        (catalog_row::number(row, 1)?, catalog_row::key_type(row, 2)?),
    ))
}

fn host(row: &Row) -> Step<(HostPattern, (u64, References))> {
    let references = catalog_row::references(row, 2)?;
    Ok((
        catalog_row::pattern(row, 0)?,
        (catalog_row::number(row, 1)?, references),
    ))
}

fn document(row: &Row) -> Step<(DocumentId, u64, bool)> {
    Ok((
        catalog_row::document_id(row)?,
        catalog_row::number(row, 2)?,
        get(row, 3)?,
    ))
}

/// Bounds what a writer that hangs keeps from others: its server ends it.
pub(super) const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL lock_timeout = '10s';
    SET LOCAL statement_timeout = '30s';
    SET LOCAL idle_in_transaction_session_timeout = '10s'";

const LOCK: &str = "SELECT number, forgotten FROM sekisho.meta FOR UPDATE";

/// The number of the last change, for a batch that takes none and cuts nothing off.
const NUMBER: &str = "SELECT coalesce((SELECT number FROM sekisho.changes ORDER BY number DESC LIMIT 1), 0), 0::bigint";

const CREDENTIALS: &str =
    "SELECT id, version, key_type FROM sekisho.credentials WHERE id = ANY ($1)";

const HOSTS: &str =
    "SELECT pattern, version, ecdsa, ed25519, rsa FROM sekisho.hosts WHERE pattern = ANY ($1)";

macro_rules! lock_documents {
    ($how:literal) => {
        concat!(
            "SELECT d.kind, d.key, d.version, d.expires IS NULL OR d.expires > ",
            now!("$3"),
            " FROM unnest($1::text[], $2::text[]) AS asked (kind, key)
         JOIN sekisho.documents d ON d.kind = asked.kind AND d.key = asked.key
         ORDER BY d.kind, d.key ",
            $how,
            " OF d"
        )
    };
}

/// In one order: two that lock several never wait for each other.
pub(super) const DOCUMENTS: &str = lock_documents!("FOR UPDATE");

const REQUIRED_DOCUMENTS: &str = lock_documents!("FOR SHARE");

/// Attempts to write a batch. A second one finds the row that had been absent, unless it
/// was removed again.
const MAX_ATTEMPTS: u32 = 5;
