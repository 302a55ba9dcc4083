//! Plan of a batch: what it changes, worked out from what a catalog holds, before
//! anything is written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use aws_lc_rs::digest::{Digest, SHA256, digest};
use rustls_pki_types::CertificateDer;

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Fence, Lineage, LineageName};
use sekisho_certs::record::{HostRecord, References};
use sekisho_certs::store::precondition;
use sekisho_certs::store::{
    Change, Document, DocumentId, Precondition, Result, Subject, What, Write,
};

/// Subjects whose stored state a batch depends on.
#[derive(Debug, Default)]
pub(crate) struct Subjects<'a> {
    pub(crate) credentials: Vec<CredentialId>,
    pub(crate) hosts: Vec<&'a HostPattern>,
    /// Documents that are written.
    pub(crate) documents: Vec<&'a DocumentId>,
    /// Documents of which a state is required.
    pub(crate) required: Vec<&'a DocumentId>,
    pub(crate) lineages: Vec<&'a LineageName>,
}

impl<'a> Subjects<'a> {
    /// Lists the subjects of these writes.
    pub(crate) fn of(writes: &'a [Write<SealedBytes>]) -> Self {
        let mut subjects = Self::default();
        for write in writes {
            match write {
                Write::PutCredential(credential, _) => subjects.credentials.push(credential.id),
                Write::PutHost(record, _) => {
                    let references = record.references.iter();
                    subjects.credentials.extend(references.map(|(_, id)| id));
                    subjects.hosts.push(&record.pattern);
                }
                Write::RemoveHost(pattern, _) => subjects.hosts.push(pattern),
                Write::PutDocument(document, _) => subjects.documents.push(&document.id),
                Write::RemoveDocument(id, _) => subjects.documents.push(id),
                Write::Require(id, _) => subjects.required.push(id),
                Write::PutLineage(lineage, _) => subjects.lineages.push(&lineage.name),
                Write::RemoveLineage(name, _) => subjects.lineages.push(name),
            }
        }
        subjects
    }

    /// Tells whether a write of these may take a number of the log.
    #[cfg(feature = "postgres")]
    pub(crate) fn may_announce(&self) -> bool {
        let is_announced = |id: &&DocumentId| id.kind.is_announced();
        let has_announced = self.documents.iter().any(is_announced);
        has_announced || !self.credentials.is_empty() || !self.hosts.is_empty()
    }
}

/// Stored state of the [`Subjects`] of a batch.
#[derive(Debug, Default)]
pub(crate) struct Stored {
    /// Number of the last change. The plan counts it on.
    pub(crate) number: u64,
    /// Number behind which the log has every change; readers further behind see
    /// a gap.
    pub(crate) forgotten: u64,
    /// Version and type.
    pub(crate) credentials: HashMap<CredentialId, (u64, KeyType)>,
    /// Version and references.
    pub(crate) hosts: HashMap<HostPattern, (u64, References)>,
    /// Version.
    pub(crate) documents: HashMap<DocumentId, u64>,
    /// Epoch of the claim that holds, if one does.
    pub(crate) lineages: HashMap<LineageName, Option<u64>>,
}

/// Contents to write, in the order of the keys. Of several writes of one subject,
/// the last counts.
#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub(crate) stored: Stored,
    pub(crate) credentials: BTreeMap<CredentialId, StoredCredential<SealedBytes>>,
    /// Hosts by pattern; none where one is removed.
    pub(crate) hosts: BTreeMap<HostPattern, Option<HostRecord>>,
    /// Documents; none where one is removed.
    pub(crate) documents: BTreeMap<DocumentId, Option<Document<SealedBytes>>>,
    /// Lineages; none where one is removed.
    pub(crate) lineages: BTreeMap<LineageName, Option<Lineage<SealedBytes>>>,
    /// Changes to announce.
    pub(crate) changes: Vec<Change>,
    /// Credentials that a host no longer refers to. Without any other reference
    /// they are deleted.
    pub(crate) dropped: BTreeSet<CredentialId>,
}

impl Plan {
    /// # Errors
    /// A conflict with the stored state: nothing may be written then.
    pub(crate) fn new(stored: Stored, writes: Vec<Write<SealedBytes>>) -> Result<Self> {
        let mut plan = Self {
            stored,
            ..Self::default()
        };
        for write in writes {
            plan.apply(write)?;
        }
        Ok(plan)
    }

    /// Takes the next number for a change, and announces it. A subject that is
    /// not announced gets the number of the last change.
    pub(crate) fn announce(&mut self, subject: Subject, what: What) -> u64 {
        if matches!(&subject, Subject::Document(id) if !id.kind.is_announced()) {
            return self.stored.number;
        }
        self.stored.number += 1;
        self.changes.push(Change {
            number: self.stored.number,
            subject,
            what,
        });
        self.stored.number
    }

    /// Returns up to which number the log is cut, a bounded piece at a time.
    pub(crate) fn floor(&self, keep: u64) -> u64 {
        let Stored {
            number, forgotten, ..
        } = self.stored;
        let most = MIN_PRUNED.max(2 * self.changes.len() as u64);
        let floor = number.saturating_sub(keep).min(forgotten + most);
        floor.max(forgotten)
    }

    fn apply(&mut self, write: Write<SealedBytes>) -> Result<()> {
        match write {
            Write::PutCredential(credential, expect) => self.put_credential(credential, expect),
            Write::PutHost(record, expect) => {
                self.set_host(record.pattern.clone(), Some(record), expect)
            }
            Write::RemoveHost(pattern, expect) => self.set_host(pattern, None, expect),
            Write::PutDocument(document, expect) => {
                self.set_document(document.id.clone(), Some(document), expect)
            }
            Write::RemoveDocument(id, expect) => self.set_document(id, None, expect),
            Write::PutLineage(lineage, fence) => {
                self.set_lineage(lineage.name.clone(), Some(lineage), fence)
            }
            Write::RemoveLineage(name, fence) => self.set_lineage(name, None, fence),
            Write::Require(id, expect) => {
                expect.check(&id, self.stored.documents.get(&id).copied())
            }
        }
    }

    fn put_credential(
        &mut self,
        mut credential: StoredCredential<SealedBytes>,
        expect: Precondition,
    ) -> Result<()> {
        let (id, key_type) = (credential.id, credential.key_type);
        if credential.chain.is_empty() {
            return Err(precondition::no_chain(id));
        }
        let stored = self.stored.credentials.get(&id).copied();
        expect.check(&id, stored.map(|stored| stored.0))?;
        credential.version = match stored {
            // No server can have loaded it: it is not announced.
            None => self.stored.number,
            Some((_, old)) if old != key_type => {
                return Err(precondition::other_type(id, old.as_str(), key_type));
            }
            Some(_) => self.announce(Subject::Credential(id), What::Put),
        };
        let origin = credential.origin.take();
        credential.origin = origin.and_then(|one| one.of_write(credential.version));
        let now = (credential.version, key_type);
        self.stored.credentials.insert(id, now);
        self.credentials.insert(id, credential);
        Ok(())
    }

    fn set_host(
        &mut self,
        pattern: HostPattern,
        mut record: Option<HostRecord>,
        expect: Precondition,
    ) -> Result<()> {
        record.as_ref().map_or(Ok(()), precondition::readable)?;
        let stored = self.stored.hosts.remove(&pattern);
        expect.check(&pattern, stored.map(|stored| stored.0))?;
        if stored.is_none() && record.is_none() {
            return Ok(());
        }
        let references = record.as_ref().map(|record| record.references);
        let references = references.unwrap_or_default();
        for (key_type, id) in references.iter() {
            match self.stored.credentials.get(&id) {
                None => return Err(precondition::dangling(&pattern, id)),
                Some((_, stored)) if *stored != key_type => {
                    return Err(precondition::other_type(id, stored.as_str(), key_type));
                }
                Some(_) => {}
            }
        }
        let before = stored.map(|stored| stored.1).unwrap_or_default();
        let dropped = before
            .iter()
            .filter(|(of, id)| references.of(*of) != Some(*id));
        self.dropped.extend(dropped.map(|(_, id)| id));
        let subject = Subject::Host(pattern.clone());
        let version = self.announce(subject, what(record.as_ref()));
        if let Some(record) = &mut record {
            record.version = version;
            record.origin = record.origin.take().and_then(|one| one.of_write(version));
            let now = (version, references);
            self.stored.hosts.insert(pattern.clone(), now);
        }
        self.hosts.insert(pattern, record);
        Ok(())
    }

    fn set_document(
        &mut self,
        id: DocumentId,
        mut document: Option<Document<SealedBytes>>,
        expect: Precondition,
    ) -> Result<()> {
        let stored = self.stored.documents.remove(&id);
        expect.check(&id, stored)?;
        if stored.is_none() && document.is_none() {
            return Ok(());
        }
        let subject = Subject::Document(id.clone());
        let number = self.announce(subject, what(document.as_ref()));
        if let Some(document) = &mut document {
            // Larger than the number where writes of it are not announced.
            let version = number.max(stored.map_or(0, |before| before + 1));
            document.version = version;
            self.stored.documents.insert(id.clone(), version);
        }
        self.documents.insert(id, document);
        Ok(())
    }

    fn set_lineage(
        &mut self,
        name: LineageName,
        mut lineage: Option<Lineage<SealedBytes>>,
        fence: Fence,
    ) -> Result<()> {
        let stored = self.stored.lineages.remove(&name);
        fence.check(&name, stored)?;
        if let Some(lineage) = &mut lineage {
            let kept = stored.flatten().filter(|_| lineage.claim.is_some());
            lineage.claim = lineage.claim.take().filter(|_| kept.is_some());
            self.stored.lineages.insert(name.clone(), kept);
        }
        self.lineages.insert(name, lineage);
        Ok(())
    }

    /// Lists the lineages whose claims end with this batch.
    pub(crate) fn released(&self) -> impl Iterator<Item = &str> {
        let ends = |one: &Option<Lineage<_>>| one.as_ref().is_none_or(|one| one.claim.is_none());
        let released = self.lineages.iter().filter(move |(_, one)| ends(one));
        released.map(|(name, _)| name.as_str())
    }
}

fn what<T>(put: Option<&T>) -> What {
    put.map_or(What::Removed, |_| What::Put)
}

/// Returns the text behind the first dot of an exact name; none for a wildcard.
pub(crate) fn parent(pattern: &HostPattern) -> Option<&str> {
    let is_exact = pattern.wildcard_parent().is_none();
    is_exact.then(|| pattern.parent()).flatten()
}

/// Joins a chain without its leaf, one certificate behind the other, and hashes it:
/// hosts share a few issuers, which are stored once. None for a leaf alone.
pub(crate) fn issuers(chain: &[CertificateDer<'_>]) -> Option<(Digest, Vec<u8>)> {
    let issuers: Vec<u8> = chain[1..].iter().flat_map(|der| der.to_vec()).collect();
    (!issuers.is_empty()).then(|| (digest(&SHA256, &issuers), issuers))
}

/// Changes that a write cuts off at least: the log shrinks to its bound, and no
/// single write pays for all that was due.
pub(crate) const MIN_PRUNED: u64 = 100;
