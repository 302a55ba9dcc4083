//! Writing: a batch is one transaction.

use std::collections::BTreeSet;

use aws_lc_rs::digest::{SHA256, digest};
use rusqlite::{OptionalExtension, Transaction, TransactionBehavior, params};

use super::documents;
use super::log;
use super::read::Reader;
use super::rows::{Step, column, signed};
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
    /// What a host no longer refers to.
    dropped: BTreeSet<(CredentialId, KeyType)>,
}

impl<'a> Writer<'a> {
    fn begin(sql: &'a Transaction<'a>) -> Step<Self> {
        let (number, forgotten) = sql
            .prepare_cached("SELECT number, forgotten FROM meta")?
            .query_row((), |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)))?;
        Ok(Self {
            sql,
            before: number.cast_unsigned(),
            number: number.cast_unsigned(),
            forgotten: forgotten.cast_unsigned(),
            mark: mark(),
            dropped: BTreeSet::new(),
        })
    }

    fn apply(&mut self, write: Write<SealedBytes>, now: i64) -> Step<()> {
        match write {
            Write::PutCredential(credential, expect) => self.put_credential(&credential, expect),
            Write::PutHost(record, expect) => self.put_host(&record, expect),
            Write::RemoveHost(pattern, expect) => self.remove_host(&pattern, expect),
            Write::PutDocument(document, expect) => self.put_document(&document, expect, now),
            Write::RemoveDocument(id, expect) => self.remove_document(&id, expect, now),
            Write::Require(id, expect) => Ok(expect.check(&id, self.document(&id, now)?)?),
        }
    }

    fn put_credential(
        &mut self,
        credential: &StoredCredential<SealedBytes>,
        expect: Precondition,
    ) -> Step<()> {
        let id = credential.id;
        let key = &credential.key;
        let key_type = credential.key_type.as_str();
        let there = self.credential(id)?;
        expect.check(&id, there.as_ref().map(|there| there.0))?;
        let version = match there {
            // Nobody can have loaded it: it is not announced.
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
        self.sql.prepare_cached(PUT_CREDENTIAL)?.execute(params![
            signed(id.as_u64()),
            signed(version),
            key_type,
            leaf.as_ref(),
            self.issuers(&issuers)?,
            key.key_id,
            key.nonce,
            key.bytes,
            credential.not_before,
            credential.not_after,
            credential.renew_at,
        ])?;
        Ok(())
    }

    /// Where these issuers are stored; none if there are none.
    fn issuers(&self, chain: &[u8]) -> Step<Option<i64>> {
        if chain.is_empty() {
            return Ok(None);
        }
        let digest = digest(&SHA256, chain);
        let known = self
            .sql
            .prepare_cached("SELECT id FROM issuers WHERE digest = ?1")?
            .query_row([digest.as_ref()], |row| row.get(0))
            .optional()?;
        if known.is_some() {
            return Ok(known);
        }
        self.sql
            .prepare_cached("INSERT INTO issuers (digest, chain) VALUES (?1, ?2)")?
            .execute((digest.as_ref(), chain))?;
        Ok(Some(self.sql.last_insert_rowid()))
    }

    fn put_host(&mut self, record: &HostRecord, expect: Precondition) -> Step<()> {
        let pattern = &record.pattern;
        let there = self.host(pattern)?;
        expect.check(&pattern, there.map(|there| there.0))?;
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
        let reference = |key_type| record.references.of(key_type).map(|id| signed(id.as_u64()));
        self.sql.prepare_cached(PUT_HOST)?.execute(params![
            pattern.as_str(),
            parent,
            record.tenant.as_str(),
            record.site.as_ref().map(|site| site.format),
            record.site.as_ref().map(|site| &*site.json),
            record.tls.as_str(),
            record.disabled,
            reference(KeyType::Ecdsa),
            reference(KeyType::Ed25519),
            reference(KeyType::Rsa),
            signed(version),
        ])?;
        Ok(())
    }

    fn remove_host(&mut self, pattern: &HostPattern, expect: Precondition) -> Step<()> {
        let there = self.host(pattern)?;
        expect.check(&pattern, there.map(|there| there.0))?;
        let Some((_, references)) = there else {
            return Ok(());
        };
        self.drop_references(&references, &References::default());
        self.log(log::HOST, "", pattern.as_str(), What::Removed)?;
        self.sql
            .prepare_cached("DELETE FROM hosts WHERE pattern = ?1")?
            .execute([pattern.as_str()])?;
        Ok(())
    }

    fn put_document(
        &mut self,
        document: &Document<SealedBytes>,
        expect: Precondition,
        now: i64,
    ) -> Step<()> {
        let id = &document.id;
        expect.check(&id, self.document(id, now)?)?;
        let version = self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Put)?;
        documents::put(self.sql, document, version)?;
        Ok(())
    }

    fn remove_document(&mut self, id: &DocumentId, expect: Precondition, now: i64) -> Step<()> {
        let there = self.document(id, now)?;
        expect.check(&id, there)?;
        if there.is_none() {
            return Ok(());
        }
        self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Removed)?;
        self.sql
            .prepare_cached("DELETE FROM documents WHERE kind = ?1 AND key = ?2")?
            .execute((id.kind.as_str(), &*id.key))?;
        Ok(())
    }

    fn reseal(&mut self, reseal: &Reseal) -> Step<()> {
        let Reseal {
            version, from, to, ..
        } = reseal;
        let version = signed(*version);
        let (old, new) = (
            (from.key_id, from.nonce, &from.bytes),
            (to.key_id, to.nonce, &to.bytes),
        );
        match &reseal.of {
            SecretOf::Credential(id) => {
                let id = signed(id.as_u64());
                self.sql
                    .prepare_cached(RESEAL_CREDENTIAL)?
                    .execute(params![
                        id, version, old.0, old.1, old.2, new.0, new.1, new.2,
                    ])?;
            }
            SecretOf::Document(id) => {
                let (kind, key) = (id.kind.as_str(), &*id.key);
                self.sql.prepare_cached(RESEAL_DOCUMENT)?.execute(params![
                    kind, key, version, old.0, old.1, old.2, new.0, new.1, new.2,
                ])?;
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
            let column = column(key_type);
            let referred = self
                .sql
                .prepare_cached(&format!("SELECT 1 FROM hosts WHERE {column} = ?1 LIMIT 1"))?
                .exists([signed(id.as_u64())])?;
            if referred {
                continue;
            }
            let deleted = self
                .sql
                .prepare_cached("DELETE FROM credentials WHERE id = ?1")?
                .execute([signed(id.as_u64())])?;
            if deleted > 0 {
                self.log(log::CREDENTIAL, "", &id.to_string(), What::Removed)?;
            }
        }
        Ok(())
    }

    /// Takes the next number for a change, and announces it.
    fn log(&mut self, subject: &str, kind: &str, key: &str, what: What) -> Step<u64> {
        self.number += 1;
        self.sql.prepare_cached(LOG)?.execute((
            signed(self.number),
            subject,
            kind,
            key,
            what == What::Removed,
            self.mark,
        ))?;
        Ok(self.number)
    }

    /// Cuts the log and what has expired, a bounded piece at a time, and
    /// stores the number.
    fn finish(mut self, now: i64, keep: u64) -> Step<u64> {
        if self.number == self.before {
            return Ok(self.number);
        }
        let pace = PRUNE_AT_LEAST.max(2 * (self.number - self.before));
        let floor = self.number.saturating_sub(keep).min(self.forgotten + pace);
        if floor > self.forgotten {
            self.sql
                .prepare_cached("DELETE FROM changes WHERE number < ?1")?
                .execute([signed(floor)])?;
            self.forgotten = floor;
        }
        self.sql
            .prepare_cached(PRUNE_DOCUMENTS)?
            .execute((now, signed(PRUNE_AT_LEAST)))?;
        self.sql
            .prepare_cached("UPDATE meta SET number = ?1, forgotten = ?2")?
            .execute((signed(self.number), signed(self.forgotten)))?;
        Ok(self.number)
    }

    fn credential(&self, id: CredentialId) -> Step<Option<(u64, String)>> {
        Ok(self
            .sql
            .prepare_cached("SELECT version, key_type FROM credentials WHERE id = ?1")?
            .query_row([signed(id.as_u64())], |row| {
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
            })
            .optional()?)
    }

    fn host(&self, pattern: &HostPattern) -> Step<Option<(u64, References)>> {
        Ok(self
            .sql
            .prepare_cached("SELECT version, ecdsa, ed25519, rsa FROM hosts WHERE pattern = ?1")?
            .query_row([pattern.as_str()], |row| {
                let mut references = References::default();
                for (column, key_type) in KeyType::ALL.into_iter().enumerate() {
                    let id: Option<i64> = row.get(1 + column)?;
                    let id = id.map(|id| CredentialId::from_u64(id.cast_unsigned()));
                    references.set(key_type, id);
                }
                Ok((row.get::<_, i64>(0)?.cast_unsigned(), references))
            })
            .optional()?)
    }

    fn document(&self, id: &DocumentId, now: i64) -> Step<Option<u64>> {
        Ok(self
            .sql
            .prepare_cached(DOCUMENT_VERSION)?
            .query_row((id.kind.as_str(), &*id.key, now), |row| {
                row.get::<_, i64>(0)
            })
            .optional()?
            .map(i64::cast_unsigned))
    }
}

/// The mark of a transaction's changes.
fn mark() -> i64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    i64::from_be_bytes(bytes)
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

const RESEAL_CREDENTIAL: &str = "UPDATE credentials SET key_id = ?6, nonce = ?7, key = ?8
    WHERE id = ?1 AND version = ?2 AND key_id = ?3 AND nonce = ?4 AND key = ?5";

const RESEAL_DOCUMENT: &str = "UPDATE documents SET key_id = ?7, nonce = ?8, bytes = ?9
    WHERE kind = ?1 AND key = ?2 AND version = ?3 AND key_id = ?4 AND nonce = ?5 AND bytes = ?6";

const DOCUMENT_VERSION: &str = "SELECT version FROM documents
    WHERE kind = ?1 AND key = ?2 AND (expires IS NULL OR expires > ?3)";

/// Nobody sees an expired document, so nobody is told.
const PRUNE_DOCUMENTS: &str = "DELETE FROM documents WHERE (kind, key) IN
    (SELECT kind, key FROM documents WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";

/// What a write cuts off at least: the log shrinks to its bound, yet no
/// single write pays for all that was due.
const PRUNE_AT_LEAST: u64 = 100;
