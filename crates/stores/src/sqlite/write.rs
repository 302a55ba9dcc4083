//! Writing: a batch is one transaction.

use rusqlite::{Row, ToSql, Transaction, TransactionBehavior, params};

use super::documents;
use super::lineages;
use super::read::StoreConnection;
use super::rows::{Fault, Step};
use super::statements::{change, first, list, run};
use crate::catalog_row;
use crate::log_row;
use crate::plan::{self, MIN_PRUNED, Plan, Stored, Subjects};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::random;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{Reseal, Result, SecretOf, Subject, What, Write, reversed};

impl StoreConnection {
    /// Applies a batch, whole or not at all. `keep` changes stay in the log.
    pub(super) fn write(&mut self, batch: Batch, now_ms: i64, keep: u64) -> Result<u64> {
        self.run(|connection| {
            // From here on no other writer takes a number until our commit.
            let sql = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let (writes, reseals) = batch.into_parts();
            let mut plan = Plan::new(stored(&sql, &writes, now_ms)?, writes)?;
            put_contents(&sql, &plan)?;
            for one in &reseals {
                reseal(&sql, one)?;
            }
            for id in std::mem::take(&mut plan.dropped) {
                if change(&sql, DROP_ORPHAN, [id.as_u64()])? > 0 {
                    plan.announce(Subject::Credential(id), What::Removed);
                }
            }
            if !plan.changes.is_empty() {
                put_changes(&sql, &plan, now_ms.div_euclid(1000), keep)?;
            }
            sql.commit()?;
            Ok(plan.stored.number)
        })
    }
}

/// Reads the stored state that these writes depend on.
fn stored(sql: &Transaction<'_>, writes: &[Write<SealedBytes>], now_ms: i64) -> Step<Stored> {
    let text = "SELECT number, forgotten FROM meta";
    let numbers = first(sql, text, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
    let (number, forgotten) = numbers.ok_or_else(Fault::no_meta)?;
    let mut stored = Stored {
        number,
        forgotten,
        ..Stored::default()
    };
    let subjects = Subjects::of(writes);
    for id in subjects.credentials {
        let read = |row: &Row<'_>| Ok((id, (row.get(0)?, catalog_row::key_type(row, 1)?)));
        let found = list(sql, CREDENTIAL, [id.as_u64()], read)?;
        stored.credentials.extend(found);
    }
    for pattern in subjects.hosts {
        let read = |row: &Row<'_>| {
            Ok((
                pattern.clone(),
                (row.get(0)?, catalog_row::references(row, 1)?),
            ))
        };
        let found = list(sql, HOST, [pattern.as_str()], read)?;
        stored.hosts.extend(found);
    }
    let now = now_ms.div_euclid(1000);
    for id in subjects.documents.into_iter().chain(subjects.required) {
        let values = (id.kind.as_str(), &*id.key, now);
        let found = list(sql, DOCUMENT, values, |row| Ok((id.clone(), row.get(0)?)))?;
        stored.documents.extend(found);
    }
    for name in subjects.lineages {
        let read = |row: &Row<'_>| Ok((name.clone(), row.get(0)?));
        let found = list(sql, lineages::HELD, (name.as_str(), now_ms), read)?;
        stored.lineages.extend(found);
    }
    Ok(stored)
}

/// Writes credentials, hosts, documents and lineages.
fn put_contents(sql: &Transaction<'_>, plan: &Plan) -> Step<()> {
    for credential in plan.credentials.values() {
        put_credential(sql, credential)?;
    }
    for (pattern, record) in &plan.hosts {
        match record {
            Some(record) => put_host(sql, record)?,
            None => run(sql, REMOVE_HOST, [pattern.as_str()])?,
        }
    }
    for (id, document) in &plan.documents {
        match document {
            Some(document) => documents::put(sql, document)?,
            None => run(sql, REMOVE_DOCUMENT, (id.kind.as_str(), &*id.key))?,
        }
    }
    lineages::put(sql, plan)
}

fn put_credential(
    sql: &Transaction<'_>,
    credential: &StoredCredential<SealedBytes>,
) -> rusqlite::Result<()> {
    let key = &credential.key;
    let values = params![
        credential.id.as_u64(),
        credential.version,
        credential.key_type.as_str(),
        credential.chain[0].as_ref(),
        issuers(sql, credential)?,
        key.key_id,
        key.nonce,
        key.bytes,
        credential.not_before,
        credential.not_after,
        credential.origin.as_ref().map(|origin| &*origin.source),
        credential.origin.as_ref().map(|origin| origin.version),
    ];
    run(sql, PUT_CREDENTIAL, values)
}

/// Stores the issuers of a credential once, and returns their row; none if there
/// are none.
fn issuers(
    sql: &Transaction<'_>,
    credential: &StoredCredential<SealedBytes>,
) -> rusqlite::Result<Option<i64>> {
    let Some((digest, chain)) = plan::issuers(&credential.chain) else {
        return Ok(None);
    };
    let text = "SELECT id FROM issuers WHERE digest = ?1";
    let known = first(sql, text, [digest.as_ref()], |row| row.get(0))?;
    if known.is_some() {
        return Ok(known);
    }
    let text = "INSERT INTO issuers (digest, chain) VALUES (?1, ?2)";
    run(sql, text, (digest.as_ref(), chain))?;
    Ok(Some(sql.last_insert_rowid()))
}

fn put_host(sql: &Transaction<'_>, record: &HostRecord) -> rusqlite::Result<()> {
    let [ecdsa, ed25519, rsa] =
        KeyType::ALL.map(|key_type| record.references.of(key_type).map(CredentialId::as_u64));
    let values = params![
        record.pattern.as_str(),
        plan::parent(&record.pattern),
        record.tenant.as_str(),
        record.site.as_ref().map(|site| site.format),
        record.site.as_ref().map(|site| &*site.json),
        record.tls.to_text(),
        record.disabled,
        ecdsa,
        ed25519,
        rsa,
        record.version,
        reversed(&record.pattern),
        record.origin.as_ref().map(|origin| &*origin.source),
        record.origin.as_ref().map(|origin| origin.version),
        record.suspended.as_ref().map(catalog_row::suspension_text),
    ];
    run(sql, PUT_HOST, values)
}

fn reseal(sql: &Transaction<'_>, reseal: &Reseal) -> rusqlite::Result<()> {
    let Reseal {
        of,
        version,
        from,
        to,
    } = reseal;
    let mut values: Vec<&dyn ToSql> = vec![
        version,
        &from.key_id,
        &from.nonce,
        &from.bytes,
        &to.key_id,
        &to.nonce,
        &to.bytes,
    ];
    match of {
        SecretOf::Credential(id) => {
            let id = id.as_u64();
            values.push(&id);
            run(sql, RESEAL_CREDENTIAL, &*values)
        }
        SecretOf::Document(id) => {
            let kind = id.kind.as_str();
            values.extend([&kind as &dyn ToSql, &id.key]);
            run(sql, RESEAL_DOCUMENT, &*values)
        }
        SecretOf::Lineage(name) => {
            let name = name.as_str();
            values.push(&name);
            run(sql, lineages::RESEAL, &*values)
        }
    }
}

/// Announces the changes, cuts the log and what has expired a bounded piece at a
/// time, and stores the number.
fn put_changes(sql: &Transaction<'_>, plan: &Plan, now: i64, keep: u64) -> rusqlite::Result<()> {
    let mark = i64::from_be_bytes(random());
    for change in &plan.changes {
        let (subject, kind, key) = log_row::columns(&change.subject);
        let is_removed = change.what == What::Removed;
        let values = (change.number, subject, kind, key, is_removed, mark);
        run(sql, LOG, values)?;
    }
    let floor = plan.floor(keep);
    run(sql, CUT_LOG, [floor])?;
    run(sql, PRUNE_DOCUMENTS, (now, MIN_PRUNED))?;
    let text = "UPDATE meta SET number = ?1, forgotten = ?2";
    run(sql, text, (plan.stored.number, floor))
}

// Statements name their columns: a later version may add some.

const CREDENTIAL: &str = "SELECT version, key_type FROM credentials WHERE id = ?1";

const HOST: &str = "SELECT version, ecdsa, ed25519, rsa FROM hosts WHERE pattern = ?1";

const DOCUMENT: &str = "SELECT version FROM documents
    WHERE kind = ?1 AND key = ?2 AND (expires IS NULL OR expires > ?3)";

const REMOVE_HOST: &str = "DELETE FROM hosts WHERE pattern = ?1";

const REMOVE_DOCUMENT: &str = "DELETE FROM documents WHERE kind = ?1 AND key = ?2";

/// Deletes a credential that the whole batch left without a reference.
const DROP_ORPHAN: &str = "DELETE FROM credentials WHERE id = ?1
    AND NOT EXISTS (SELECT 1 FROM hosts WHERE ecdsa = ?1)
    AND NOT EXISTS (SELECT 1 FROM hosts WHERE ed25519 = ?1)
    AND NOT EXISTS (SELECT 1 FROM hosts WHERE rsa = ?1)";

const LOG: &str = "INSERT INTO changes (number, subject, kind, key, removed, mark)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

/// Spares the change with the number `forgotten`: a page read behind it gives its
/// mark as `mark_before`.
const CUT_LOG: &str = "DELETE FROM changes WHERE number < ?1";

const PUT_CREDENTIAL: &str = "INSERT INTO credentials (id, version, key_type, leaf, issuer,
    key_id, nonce, key, not_before, not_after, origin, origin_version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12)
    ON CONFLICT (id) DO UPDATE SET version = ?2, leaf = ?4, issuer = ?5, key_id = ?6,
    nonce = ?7, key = ?8, not_before = ?9, not_after = ?10, origin = ?11,
    origin_version = ?12";

const PUT_HOST: &str = "INSERT INTO hosts (pattern, parent, tenant, site_format, site, tls,
    disabled, ecdsa, ed25519, rsa, version, reversed, origin, origin_version, suspended)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15)
    ON CONFLICT (pattern) DO UPDATE SET tenant = ?3, site_format = ?4, site = ?5, tls = ?6,
    disabled = ?7, ecdsa = ?8, ed25519 = ?9, rsa = ?10, version = ?11, reversed = ?12,
    origin = ?13, origin_version = ?14, suspended = ?15";

const RESEAL_CREDENTIAL: &str = "UPDATE credentials SET key_id = ?5, nonce = ?6, key = ?7
    WHERE id = ?8 AND version = ?1 AND key_id = ?2 AND nonce = ?3 AND key = ?4";

const RESEAL_DOCUMENT: &str = "UPDATE documents SET key_id = ?5, nonce = ?6, bytes = ?7
    WHERE kind = ?8 AND key = ?9 AND version = ?1 AND key_id = ?2 AND nonce = ?3 AND bytes = ?4";

/// Deletes expired documents. Readers don't see them: no change is logged.
const PRUNE_DOCUMENTS: &str = "DELETE FROM documents WHERE (kind, key) IN
    (SELECT kind, key FROM documents WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
