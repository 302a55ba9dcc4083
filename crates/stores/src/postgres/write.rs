//! Writing: a batch is one transaction of three round trips, however large it
//! is. It begins with the lock of the row that counts changes: from there on
//! no other writer takes a number until our commit.

mod plan;
mod reseal;
mod send;

use std::collections::HashMap;

use futures_util::future::try_join5;
use tokio_postgres::Row;

use self::plan::{Asked, Plan, There};
use super::connection::Connection;
use super::fault::{Fault, Step};
use super::params::column;
use super::read::now;
use super::rows::{self, signed};
use sekisho_certs::credential::{CredentialId, KeyType};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::References;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{DocumentId, What};

use super::log;

/// Applies a batch, whole or not at all. `keep` changes stay in the log;
/// `now` is none for the database's own clock.
pub(super) async fn write(on: &Connection, batch: Batch, now: Option<i64>, keep: u64) -> Step<u64> {
    let (writes, reseals) = batch.into_parts();
    let asked = Asked::by(&writes)?;
    let (there, forgotten) = begin(on, &asked, now).await?;
    let before = there.number;
    let mut plan = match Plan::new(there, writes) {
        Ok(plan) => plan,
        Err(conflict) => {
            on.run("ROLLBACK").await?;
            return Err(conflict.into());
        }
    };
    reseal::reseal(on, &reseals).await?;
    for orphan in send::contents(on, &plan).await? {
        plan.log(log::CREDENTIAL, "", &orphan.to_string(), What::Removed);
    }
    let kept = Kept {
        before,
        forgotten,
        keep,
    };
    send::changes(on, &plan, kept, now).await?;
    Ok(plan.number())
}

/// Where the log ends, and how long it may be.
#[derive(Clone, Copy)]
struct Kept {
    before: u64,
    forgotten: u64,
    keep: u64,
}

/// Takes the lock and reads what stands there; also how far the log is cut.
async fn begin(on: &Connection, asked: &Asked, now: Option<i64>) -> Step<(There, u64)> {
    let documents = &asked.documents;
    // Sent together and done in this order: what is read is read under the
    // lock.
    let ((), meta, credentials, hosts, documents) = try_join5(
        on.run(BEGIN),
        on.query(LOCK, &[]),
        on.query(
            CREDENTIALS,
            &[&column(&asked.credentials, |id| signed(id.as_u64()))],
        ),
        on.query(HOSTS, &[&column(&asked.hosts, HostPattern::as_str)]),
        on.query(
            DOCUMENTS,
            &[
                &column(documents, |id| id.kind.as_str()),
                &column(documents, |id| &*id.key),
                &now,
            ],
        ),
    )
    .await?;
    let meta = meta.first().ok_or_else(rows::no_meta)?;
    let there = There {
        number: rows::number(meta, 0)?,
        credentials: credentials.iter().map(credential).collect::<Step<_>>()?,
        hosts: hosts.iter().map(host).collect::<Step<_>>()?,
        documents: documents
            .iter()
            .map(document)
            .collect::<Step<HashMap<_, _>>>()?,
    };
    Ok((there, rows::number(meta, 1)?))
}

fn credential(row: &Row) -> Step<(CredentialId, (u64, KeyType))> {
    let id = CredentialId::from_u64(rows::number(row, 0)?);
    let key_type = rows::get(row, 2)?;
    let key_type = KeyType::parse(key_type)
        .ok_or_else(|| Fault::Value(format!("{id} has the unknown key type {key_type:?}")))?;
    Ok((id, (rows::number(row, 1)?, key_type)))
}

fn host(row: &Row) -> Step<(HostPattern, (u64, References))> {
    let references = rows::references(row, 2)?;
    Ok((rows::pattern(row, 0)?, (rows::number(row, 1)?, references)))
}

fn document(row: &Row) -> Step<(DocumentId, u64)> {
    Ok((rows::document_id(row)?, rows::number(row, 2)?))
}

/// Bounds what a writer that hangs keeps from others: its server ends it.
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
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
