//! Writing: a batch is one transaction.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use rusqlite::{Row, ToSql, Transaction, TransactionBehavior, params};

use super::documents;
use super::log;
use super::read::Reader;
use super::rows::{self, Step};
use super::statements::{first, run};
use crate::random::random;
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::precondition;
use sekisho_certs::store::{
    Document, DocumentId, Precondition, Reseal, Result, SecretOf, What, Write,
};

impl Reader {
    /// Applies a batch, whole or not at all. `keep` changes stay in the log.
    pub(super) fn write(&mut self, batch: Batch, now: i64, keep: u64) -> Result<u64> {
        self.run(|connection| {
            // From here on no other writer takes a number until our commit.
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let mut writer = Writer::begin(&transaction)?;
            let (writes, reseals) = batch.into_parts();
            for write in writes {
                writer.apply(write, now)?;
            }
            for reseal in &reseals {
                writer.reseal(reseal)?;
            }
            writer.drop_orphans()?;
            let number = writer.finish(now, keep)?;
            transaction.commit()?;
            Ok(number)
        })
    }
}

/// A batch under way.
struct Writer<'a> {
    sql: &'a Transaction<'a>,
    before: u64,
    number: u64,
    forgotten: u64,
    mark: i64,
    /// Credentials that a host no longer refers to.
    dropped: BTreeSet<(CredentialId, KeyType)>,
}

impl<'a> Writer<'a> {
    fn begin(sql: &'a Transaction<'a>) -> Step<Self> {
        let text = "SELECT number, forgotten FROM meta";
        let numbers = first(sql, text, (), |row| Ok((row.get(0)?, row.get(1)?)))?;
        let (number, forgotten) = numbers.ok_or_else(log::no_meta)?;
        Ok(Self {
            sql,
            before: number,
            number,
            forgotten,
            mark: i64::from_be_bytes(random()),
            dropped: BTreeSet::new(),
        })
    }

    fn apply(&mut self, write: Write<SealedBytes>, now: i64) -> Step<()> {
        match write {
            Write::PutCredential(credential, condition) => {
                self.put_credential(&credential, condition)
            }
            Write::PutHost(record, condition) => self.put_host(&record, condition),
            Write::RemoveHost(pattern, condition) => self.remove_host(&pattern, condition),
            Write::PutDocument(document, condition) => self.put_document(&document, condition, now),
            Write::RemoveDocument(id, condition) => self.remove_document(&id, condition, now),
            Write::Require(id, condition) => Ok(condition.check(&id, self.document(&id, now)?)?),
        }
    }

    fn put_credential(
        &mut self,
        credential: &StoredCredential<SealedBytes>,
        condition: Precondition,
    ) -> Step<()> {
        let id = credential.id;
        let key = &credential.key;
        let key_type = credential.key_type.as_str();
        let there = self.credential(id)?;
        condition.check(&id, there.as_ref().map(|there| there.0))?;
        let version = match there {
            // No server can have loaded a new credential: it is not announced.
            None => self.number,
            Some((_, old)) if old != key_type => {
                return Err(precondition::other_type(id, &old, credential.key_type).into());
            }
            Some(_) => self.log(log::CREDENTIAL, "", &id.to_string(), What::Put)?,
        };
        let (leaf, issuers) = credential
            .chain
            .split_first()
            .ok_or_else(|| precondition::no_chain(id))?;
        let issuers: Vec<u8> = issuers.iter().flat_map(|der| der.to_vec()).collect();
        let values = params![
            id.as_u64(),
            version,
            key_type,
            leaf.as_ref(),
            self.issuers(&issuers)?,
            key.key_id,
            key.nonce,
            key.bytes,
            credential.not_before,
            credential.not_after,
            credential.renew_at,
        ];
        run(self.sql, PUT_CREDENTIAL, values)?;
        Ok(())
    }

    /// Where these issuers are stored; none if there are none.
    fn issuers(&self, chain: &[u8]) -> Step<Option<i64>> {
        if chain.is_empty() {
            return Ok(None);
        }
        let digest = digest(&SHA256, chain);
        let text = "SELECT id FROM issuers WHERE digest = ?1";
        let known = first(self.sql, text, [digest.as_ref()], |row| row.get(0))?;
        if known.is_some() {
            return Ok(known);
        }
        let text = "INSERT INTO issuers (digest, chain) VALUES (?1, ?2)";
        run(self.sql, text, (digest.as_ref(), chain))?;
        Ok(Some(self.sql.last_insert_rowid()))
    }

    fn put_host(&mut self, record: &HostRecord, condition: Precondition) -> Step<()> {
        let pattern = &record.pattern;
        let there = self.host(pattern)?;
        condition.check(&pattern, there.map(|there| there.0))?;
        for (key_type, id) in record.references.iter() {
            match self.credential(id)? {
                None => return Err(precondition::dangling(pattern, id).into()),
                Some((_, stored)) if stored != key_type.as_str() => {
                    return Err(precondition::other_type(id, &stored, key_type).into());
                }
                Some(_) => {}
            }
        }
        let before = there.map(|there| there.1).unwrap_or_default();
        self.drop_references(&before, &record.references);
        let version = self.log(log::HOST, "", pattern.as_str(), What::Put)?;
        let parent = match pattern.wildcard_parent() {
            Some(_) => None,
            None => pattern.parent(),
        };
        let [ecdsa, ed25519, rsa] =
            KeyType::ALL.map(|key_type| record.references.of(key_type).map(CredentialId::as_u64));
        let values = params![
            pattern.as_str(),
            parent,
            record.tenant.as_str(),
            record.site.as_ref().map(|site| site.format),
            record.site.as_ref().map(|site| &*site.json),
            record.tls.as_str(),
            record.disabled,
            ecdsa,
            ed25519,
            rsa,
            version,
        ];
        run(self.sql, PUT_HOST, values)?;
        Ok(())
    }

    fn remove_host(&mut self, pattern: &HostPattern, condition: Precondition) -> Step<()> {
        let there = self.host(pattern)?;
        condition.check(&pattern, there.map(|there| there.0))?;
        let Some((_, references)) = there else {
            return Ok(());
        };
        self.drop_references(&references, &References::default());
        self.log(log::HOST, "", pattern.as_str(), What::Removed)?;
        let text = "DELETE FROM hosts WHERE pattern = ?1";
        run(self.sql, text, [pattern.as_str()])?;
        Ok(())
    }

    fn put_document(
        &mut self,
        document: &Document<SealedBytes>,
        condition: Precondition,
        now: i64,
    ) -> Step<()> {
        let id = &document.id;
        condition.check(&id, self.document(id, now)?)?;
        let version = self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Put)?;
        documents::put(self.sql, document, version)?;
        Ok(())
    }

    fn remove_document(&mut self, id: &DocumentId, condition: Precondition, now: i64) -> Step<()> {
        let there = self.document(id, now)?;
        condition.check(&id, there)?;
        if there.is_none() {
            return Ok(());
        }
        self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Removed)?;
        let text = "DELETE FROM documents WHERE kind = ?1 AND key = ?2";
        run(self.sql, text, (id.kind.as_str(), &*id.key))?;
        Ok(())
    }

    fn reseal(&self, reseal: &Reseal) -> Step<()> {
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
                run(self.sql, RESEAL_CREDENTIAL, &*values)?;
            }
            SecretOf::Document(id) => {
                let kind = id.kind.as_str();
                values.extend([&kind as &dyn ToSql, &id.key]);
                run(self.sql, RESEAL_DOCUMENT, &*values)?;
            }
        }
        Ok(())
    }

    fn drop_references(&mut self, before: &References, after: &References) {
        let gone = |(key_type, id): &(KeyType, CredentialId)| after.of(*key_type) != Some(*id);
        let gone = before.iter().filter(gone);
        self.dropped
            .extend(gone.map(|(key_type, id)| (id, key_type)));
    }

    /// Deletes what the whole batch left without a reference.
    fn drop_orphans(&mut self) -> Step<()> {
        for (id, key_type) in std::mem::take(&mut self.dropped) {
            let column = key_type.as_str();
            let text = format!(
                "DELETE FROM credentials WHERE id = ?1
                 AND NOT EXISTS (SELECT 1 FROM hosts WHERE {column} = ?1)"
            );
            let deleted = run(self.sql, &text, [id.as_u64()])?;
            if deleted > 0 {
                self.log(log::CREDENTIAL, "", &id.to_string(), What::Removed)?;
            }
        }
        Ok(())
    }

    /// Takes the next number for a change, and announces it.
    fn log(&mut self, subject: &str, kind: &str, key: &str, what: What) -> Step<u64> {
        self.number += 1;
        let is_removed = what == What::Removed;
        let values = (self.number, subject, kind, key, is_removed, self.mark);
        run(self.sql, LOG, values)?;
        Ok(self.number)
    }

    /// Cuts the log and what has expired, a bounded piece at a time, and
    /// stores the number.
    fn finish(mut self, now: i64, keep: u64) -> Step<u64> {
        if self.number == self.before {
            return Ok(self.number);
        }
        let pace = MIN_PRUNED.max(2 * (self.number - self.before));
        let floor = self.number.saturating_sub(keep).min(self.forgotten + pace);
        if floor > self.forgotten {
            run(self.sql, "DELETE FROM changes WHERE number < ?1", [floor])?;
            self.forgotten = floor;
        }
        run(self.sql, PRUNE_DOCUMENTS, (now, MIN_PRUNED))?;
        let text = "UPDATE meta SET number = ?1, forgotten = ?2";
        run(self.sql, text, (self.number, self.forgotten))?;
        Ok(self.number)
    }

    fn credential(&self, id: CredentialId) -> Step<Option<(u64, String)>> {
        let text = "SELECT version, key_type FROM credentials WHERE id = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        Ok(first(self.sql, text, [id.as_u64()], read)?)
    }

    fn host(&self, pattern: &HostPattern) -> Step<Option<(u64, References)>> {
        let text = "SELECT version, ecdsa, ed25519, rsa FROM hosts WHERE pattern = ?1";
        let read = |row: &Row<'_>| Ok((row.get(0)?, rows::references(row, 1)?));
        Ok(first(self.sql, text, [pattern.as_str()], read)?)
    }

    fn document(&self, id: &DocumentId, now: i64) -> Step<Option<u64>> {
        let values = (id.kind.as_str(), &*id.key, now);
        Ok(first(self.sql, DOCUMENT_VERSION, values, |row| row.get(0))?)
    }
}

// Statements name their columns: a later version may add some.

const LOG: &str = "INSERT INTO changes (number, subject, kind, key, removed, mark)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)";

const PUT_CREDENTIAL: &str = "INSERT INTO credentials (id, version, key_type, leaf, issuer,
    key_id, nonce, key, not_before, not_after, renew_at)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (id) DO UPDATE SET version = ?2, leaf = ?4, issuer = ?5, key_id = ?6,
    nonce = ?7, key = ?8, not_before = ?9, not_after = ?10, renew_at = ?11";

const PUT_HOST: &str = "INSERT INTO hosts (pattern, parent, tenant, site_format, site, tls,
    disabled, ecdsa, ed25519, rsa, version)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
    ON CONFLICT (pattern) DO UPDATE SET tenant = ?3, site_format = ?4, site = ?5, tls = ?6,
    disabled = ?7, ecdsa = ?8, ed25519 = ?9, rsa = ?10, version = ?11";

const RESEAL_CREDENTIAL: &str = "UPDATE credentials SET key_id = ?5, nonce = ?6, key = ?7
    WHERE id = ?8 AND version = ?1 AND key_id = ?2 AND nonce = ?3 AND key = ?4";

const RESEAL_DOCUMENT: &str = "UPDATE documents SET key_id = ?5, nonce = ?6, bytes = ?7
    WHERE kind = ?8 AND key = ?9 AND version = ?1 AND key_id = ?2 AND nonce = ?3 AND bytes = ?4";

const DOCUMENT_VERSION: &str = "SELECT version FROM documents
    WHERE kind = ?1 AND key = ?2 AND (expires IS NULL OR expires > ?3)";

/// Deletes expired documents. Readers don't see them: no change is logged.
const PRUNE_DOCUMENTS: &str = "DELETE FROM documents WHERE (kind, key) IN
    (SELECT kind, key FROM documents WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";

/// Changes that a write cuts off at least: the log shrinks to its bound, and no
/// single write pays for all that was due.
const MIN_PRUNED: u64 = 100;
