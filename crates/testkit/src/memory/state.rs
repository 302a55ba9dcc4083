//! State of the catalog, and how a write makes the next.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound::{Excluded, Unbounded};

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Lineage, LineageName};
use sekisho_certs::record::{HostRecord, References};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::precondition;
use sekisho_certs::store::{
    Answer, Change, ChangePage, Document, DocumentId, DocumentKind, Found, LogId, LogPosition,
    Precondition, Reseal, Result, SecretOf, StoreError, Subject, What, Write,
};

#[derive(Clone, Debug)]
pub(super) struct State {
    log: LogId,
    keep: u64,
    number: u64,
    /// The mark of the transaction under way, or of the last one.
    mark: u64,
    pub(super) token: u64,
    changes: BTreeMap<u64, (Change, u64)>,
    pub(super) hosts: BTreeMap<HostPattern, HostRecord>,
    pub(super) credentials: BTreeMap<CredentialId, StoredCredential<SealedBytes>>,
    documents: BTreeMap<DocumentId, Document<SealedBytes>>,
    pub(super) lineages: BTreeMap<LineageName, Lineage<SealedBytes>>,
}

impl State {
    pub(super) fn new(log: LogId, keep: u64) -> Self {
        Self {
            log,
            keep,
            number: 0,
            mark: 0,
            token: 0,
            changes: BTreeMap::new(),
            hosts: BTreeMap::new(),
            credentials: BTreeMap::new(),
            documents: BTreeMap::new(),
            lineages: BTreeMap::new(),
        }
    }

    pub(super) fn find(&self, name: &HostName) -> Result<Answer<SealedBytes>> {
        let exact = self.hosts.get(name.as_str());
        let wildcard = || self.hosts.get(&name.wildcard()?);
        let Some(record) = exact.or_else(wildcard) else {
            return Ok(self.answer(None));
        };
        let credential = |(_, id)| {
            self.credentials.get(&id).cloned().ok_or_else(|| {
                let pattern = &record.pattern;
                StoreError::Corrupt(
                    format!("host {pattern} refers to {id}, which is not there").into(),
                )
            })
        };
        let below = |parent: &str| {
            self.hosts
                .keys()
                .any(|other| other.wildcard_parent().is_none() && other.parent() == Some(parent))
        };
        let found = Found {
            record: record.clone(),
            credentials: record
                .references
                .iter()
                .map(credential)
                .collect::<Result<_>>()?,
            shadowed: record.pattern.wildcard_parent().is_some_and(below),
            fresh_for: None,
        };
        Ok(self.answer(Some(found.into())))
    }

    fn answer(&self, found: Option<Box<Found<SealedBytes>>>) -> Answer<SealedBytes> {
        Answer {
            read_at: Some(self.head().into()),
            found,
            is_stale: false,
        }
    }

    pub(super) fn head(&self) -> LogPosition {
        LogPosition {
            log: self.log,
            number: self.number,
            mark: self.mark_of(self.number).unwrap_or(0),
        }
    }

    pub(super) fn changes(&self, after: u64, limit: usize) -> ChangePage {
        let behind = (Excluded(after), Unbounded);
        let forgotten = self.number.saturating_sub(self.keep);
        let changes = self.changes.range(behind).take(limit);
        let changes: Vec<_> = changes.map(|(_, (change, _))| change.clone()).collect();
        ChangePage {
            log: self.log,
            last: self.number,
            gap: after < forgotten || after > self.number,
            mark_before: self.mark_of(after),
            mark_last: changes.last().and_then(|last| self.mark_of(last.number)),
            changes,
        }
    }

    fn mark_of(&self, number: u64) -> Option<u64> {
        self.changes.get(&number).map(|(_, mark)| *mark)
    }

    pub(super) fn hosts(&self, patterns: &[HostPattern]) -> Vec<HostRecord> {
        let known = patterns.iter().filter_map(|one| self.hosts.get(one));
        known.cloned().collect()
    }

    pub(super) fn hosts_of(
        &self,
        id: CredentialId,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> Vec<HostPattern> {
        let behind = (after.map_or(Unbounded, Excluded), Unbounded);
        self.hosts
            .range::<HostPattern, _>(behind)
            .filter(|(_, record)| refers(record, id))
            .take(limit)
            .map(|(pattern, _)| pattern.clone())
            .collect()
    }

    pub(super) fn credentials(&self, ids: &[CredentialId]) -> Vec<StoredCredential<SealedBytes>> {
        let known = ids.iter().filter_map(|id| self.credentials.get(id));
        known.cloned().collect()
    }

    pub(super) fn document(&self, id: &DocumentId, now: i64) -> Option<&Document<SealedBytes>> {
        self.documents.get(id).filter(|one| alive(one, now))
    }

    pub(super) fn list_documents(
        &self,
        kind: &DocumentKind,
        after: Option<&str>,
        limit: usize,
        now: i64,
    ) -> Vec<Document<SealedBytes>> {
        let of_kind = |one: &&Document<SealedBytes>| one.id.kind == *kind && alive(one, now);
        let behind = |one: &&Document<SealedBytes>| after.is_none_or(|after| *one.id.key > *after);
        let listed = self.documents.values().filter(of_kind).filter(behind);
        listed.take(limit).cloned().collect()
    }

    pub(super) fn next_document_kind(&self, after: &str) -> Option<DocumentKind> {
        let mut kinds = self.documents.keys().map(|id| &id.kind);
        kinds.find(|kind| kind.as_str() > after).cloned()
    }

    /// Applies a batch to this state, which the caller drops on an error.
    pub(super) fn write(&mut self, batch: Batch, mark: u64, now_ms: i64) -> Result<u64> {
        let now = now_ms.div_euclid(1000);
        self.mark = mark;
        let mut dropped = BTreeSet::new();
        let (writes, reseals) = batch.into_parts();
        for write in writes {
            match write {
                Write::PutCredential(credential, expect) => {
                    self.put_credential(credential, expect)?;
                }
                Write::PutHost(record, expect) => self.put_host(record, expect, &mut dropped)?,
                Write::RemoveHost(pattern, expect) => {
                    self.remove_host(&pattern, expect, &mut dropped)?;
                }
                Write::PutDocument(document, expect) => self.put_document(document, expect, now)?,
                Write::RemoveDocument(id, expect) => self.remove_document(id, expect, now)?,
                Write::PutLineage(lineage, fence) => self.put_lineage(lineage, fence, now_ms)?,
                Write::RemoveLineage(name, fence) => self.remove_lineage(&name, fence, now_ms)?,
                Write::Require(id, expect) => expect.check(&id, self.version(&id, now))?,
            }
        }
        reseals.into_iter().for_each(|one| self.reseal(one));
        for id in dropped {
            let referred = self.hosts.values().any(|record| refers(record, id));
            if !referred && self.credentials.remove(&id).is_some() {
                self.announce(Subject::Credential(id), What::Removed);
            }
        }
        self.documents.retain(|_, document| alive(document, now));
        let kept = self
            .changes
            .split_off(&self.number.saturating_sub(self.keep));
        self.changes = kept;
        Ok(self.number)
    }

    fn put_credential(
        &mut self,
        mut credential: StoredCredential<SealedBytes>,
        expect: Precondition,
    ) -> Result<()> {
        let id = credential.id;
        let there = self.credentials.get(&id);
        expect.check(&id, there.map(|one| one.version))?;
        if credential.chain.is_empty() {
            return Err(precondition::no_chain(id));
        }
        credential.version = match there.map(|one| one.key_type) {
            // No server can have loaded it: it is not announced.
            None => self.number,
            Some(old) if old != credential.key_type => {
                return Err(precondition::other_type(
                    id,
                    old.as_str(),
                    credential.key_type,
                ));
            }
            Some(_) => self.announce(Subject::Credential(id), What::Put),
        };
        let origin = credential.origin.take();
        credential.origin = origin.and_then(|one| one.of_write(credential.version));
        self.credentials.insert(id, credential);
        Ok(())
    }

    fn put_host(
        &mut self,
        mut record: HostRecord,
        expect: Precondition,
        dropped: &mut BTreeSet<CredentialId>,
    ) -> Result<()> {
        let there = self.hosts.get(&record.pattern);
        expect.check(&record.pattern, there.map(|one| one.version))?;
        let before = there.map(|one| one.references).unwrap_or_default();
        for (key_type, id) in record.references.iter() {
            match self.credentials.get(&id).map(|one| one.key_type) {
                None => return Err(precondition::dangling(&record.pattern, id)),
                Some(stored) if stored != key_type => {
                    return Err(precondition::other_type(id, stored.as_str(), key_type));
                }
                Some(_) => {}
            }
        }
        dropped.extend(gone(&before, &record.references));
        record.version = self.announce(Subject::Host(record.pattern.clone()), What::Put);
        let origin = record.origin.take();
        record.origin = origin.and_then(|one| one.of_write(record.version));
        self.hosts.insert(record.pattern.clone(), record);
        Ok(())
    }

    fn remove_host(
        &mut self,
        pattern: &HostPattern,
        expect: Precondition,
        dropped: &mut BTreeSet<CredentialId>,
    ) -> Result<()> {
        let there = self.hosts.get(pattern);
        expect.check(&pattern, there.map(|one| one.version))?;
        if let Some(record) = self.hosts.remove(pattern) {
            dropped.extend(gone(&record.references, &References::default()));
            self.announce(Subject::Host(pattern.clone()), What::Removed);
        }
        Ok(())
    }

    fn put_document(
        &mut self,
        mut document: Document<SealedBytes>,
        expect: Precondition,
        now: i64,
    ) -> Result<()> {
        let id = document.id.clone();
        let before = self.version(&id, now);
        expect.check(&id, before)?;
        let number = self.announce(Subject::Document(id.clone()), What::Put);
        document.version = number.max(before.map_or(0, |before| before + 1));
        self.documents.insert(id, document);
        Ok(())
    }

    fn remove_document(&mut self, id: DocumentId, expect: Precondition, now: i64) -> Result<()> {
        let there = self.version(&id, now);
        expect.check(&id, there)?;
        if there.is_some() {
            self.documents.remove(&id);
            self.announce(Subject::Document(id), What::Removed);
        }
        Ok(())
    }

    fn version(&self, id: &DocumentId, now: i64) -> Option<u64> {
        self.document(id, now).map(|one| one.version)
    }

    fn reseal(&mut self, reseal: Reseal) {
        let Reseal {
            of,
            version,
            from,
            to,
        } = reseal;
        let there = match of {
            SecretOf::Credential(id) => {
                let there = self.credentials.get_mut(&id);
                there.map(|one| (one.version, &mut one.key))
            }
            SecretOf::Document(id) => {
                let there = self.documents.get_mut(&id);
                there.map(|one| (one.version, &mut one.bytes))
            }
            SecretOf::Lineage(name) => {
                let order = self.lineages.get_mut(&name).map(|one| &mut one.order);
                order.and_then(|order| Some((version, order.as_mut()?)))
            }
        };
        if let Some((is, secret)) = there
            && is == version
            && *secret == from
        {
            *secret = to;
        }
    }

    /// Takes the next number, unless such a subject is not announced.
    fn announce(&mut self, subject: Subject, what: What) -> u64 {
        if matches!(&subject, Subject::Document(id) if !id.kind.is_announced()) {
            return self.number;
        }
        self.number += 1;
        let change = Change {
            number: self.number,
            subject,
            what,
        };
        self.changes.insert(self.number, (change, self.mark));
        self.number
    }
}

fn refers(record: &HostRecord, id: CredentialId) -> bool {
    record.references.iter().any(|(_, other)| other == id)
}

fn gone<'a>(
    before: &'a References,
    after: &'a References,
) -> impl Iterator<Item = CredentialId> + 'a {
    let dropped = |(key_type, id): &(KeyType, CredentialId)| after.of(*key_type) != Some(*id);
    before.iter().filter(dropped).map(|(_, id)| id)
}

fn alive(document: &Document<SealedBytes>, now: i64) -> bool {
    document.expires.is_none_or(|at| at > now)
}
