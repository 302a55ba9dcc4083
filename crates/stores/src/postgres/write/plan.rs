//! What a batch changes, worked out from what stands there, before anything is
//! written.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References};
use sekisho_certs::store::precondition;
use sekisho_certs::store::{Document, DocumentId, Precondition, Result, What, Write};

use super::super::log;

/// What a batch speaks of.
#[derive(Debug, Default)]
pub(super) struct Asked {
    pub(super) credentials: HashSet<CredentialId>,
    pub(super) hosts: HashSet<HostPattern>,
    pub(super) documents: HashSet<DocumentId>,
}

impl Asked {
    /// # Errors
    /// What is wrong with the batch whatever stands there.
    pub(super) fn by(batch: &[Write<SealedBytes>]) -> Result<Self> {
        let mut asked = Self::default();
        for write in batch {
            match write {
                Write::PutCredential(credential, _) => {
                    if credential.chain.is_empty() {
                        return Err(precondition::no_chain(credential.id));
                    }
                    asked.credentials.insert(credential.id);
                }
                Write::PutHost(record, _) => {
                    let referred = record.references.iter().map(|(_, id)| id);
                    asked.credentials.extend(referred);
                    asked.hosts.insert(record.pattern.clone());
                }
                Write::RemoveHost(pattern, _) => {
                    asked.hosts.insert(pattern.clone());
                }
                Write::PutDocument(document, _) => {
                    asked.documents.insert(document.id.clone());
                }
                Write::RemoveDocument(id, _) | Write::Require(id, _) => {
                    asked.documents.insert(id.clone());
                }
            }
        }
        Ok(asked)
    }
}

/// What stands there of it.
#[derive(Debug, Default)]
pub(super) struct There {
    /// The number of the last change.
    pub(super) number: u64,
    /// By version and type.
    pub(super) credentials: HashMap<CredentialId, (u64, KeyType)>,
    pub(super) hosts: HashMap<HostPattern, (u64, References)>,
    pub(super) documents: HashMap<DocumentId, u64>,
}

/// What is to be written, in the order of the keys. Of several writes of one
/// thing, the last counts.
#[derive(Debug)]
pub(super) struct Plan {
    there: There,
    pub(super) credentials: BTreeMap<CredentialId, StoredCredential<SealedBytes>>,
    /// None where it is removed.
    pub(super) hosts: BTreeMap<HostPattern, Option<HostRecord>>,
    /// The same.
    pub(super) documents: BTreeMap<DocumentId, Option<Document<SealedBytes>>>,
    pub(super) changes: Vec<Entry>,
    /// What a host no longer refers to.
    pub(super) dropped: BTreeSet<CredentialId>,
}

/// A change to announce.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) number: u64,
    pub(super) subject: &'static str,
    pub(super) kind: String,
    pub(super) key: String,
    pub(super) what: What,
}

impl Plan {
    /// # Errors
    /// A conflict with what stands there: nothing is to be written then.
    pub(super) fn new(there: There, writes: Vec<Write<SealedBytes>>) -> Result<Self> {
        let mut plan = Self {
            there,
            credentials: BTreeMap::new(),
            hosts: BTreeMap::new(),
            documents: BTreeMap::new(),
            changes: Vec::new(),
            dropped: BTreeSet::new(),
        };
        for write in writes {
            plan.apply(write)?;
        }
        Ok(plan)
    }

    /// The number of the last change.
    pub(super) fn number(&self) -> u64 {
        self.there.number
    }

    /// Takes the next number for a change, and announces it.
    pub(super) fn log(&mut self, subject: &'static str, kind: &str, key: &str, what: What) -> u64 {
        self.there.number += 1;
        self.changes.push(Entry {
            number: self.there.number,
            subject,
            kind: kind.to_owned(),
            key: key.to_owned(),
            what,
        });
        self.there.number
    }

    fn apply(&mut self, write: Write<SealedBytes>) -> Result<()> {
        match write {
            Write::PutCredential(credential, expect) => self.put_credential(credential, expect),
            Write::PutHost(record, expect) => self.put_host(record, expect),
            Write::RemoveHost(pattern, expect) => self.remove_host(pattern, expect),
            Write::PutDocument(document, expect) => self.put_document(document, expect),
            Write::RemoveDocument(id, expect) => self.remove_document(id, expect),
            Write::Require(id, expect) => expect.check(&id, self.there.documents.get(&id).copied()),
        }
    }

    fn put_credential(
        &mut self,
        mut credential: StoredCredential<SealedBytes>,
        expect: Precondition,
    ) -> Result<()> {
        let (id, key_type) = (credential.id, credential.key_type);
        let there = self.there.credentials.get(&id).copied();
        expect.check(&id, there.map(|there| there.0))?;
        credential.version = match there {
            // Nobody can have loaded it: it is not announced.
            None => self.there.number,
            Some((_, old)) if old != key_type => {
                return Err(precondition::other_type(id, old.as_str(), key_type));
            }
            Some(_) => self.log(log::CREDENTIAL, "", &id.to_string(), What::Put),
        };
        let now = (credential.version, key_type);
        self.there.credentials.insert(id, now);
        self.credentials.insert(id, credential);
        Ok(())
    }

    fn put_host(&mut self, mut record: HostRecord, expect: Precondition) -> Result<()> {
        let pattern = record.pattern.clone();
        let there = self.there.hosts.get(&pattern).copied();
        expect.check(&pattern, there.map(|there| there.0))?;
        for (key_type, id) in record.references.iter() {
            match self.there.credentials.get(&id) {
                None => return Err(precondition::dangling(&pattern, id)),
                Some((_, stored)) if *stored != key_type => {
                    return Err(precondition::other_type(id, stored.as_str(), key_type));
                }
                Some(_) => {}
            }
        }
        let before = there.map(|there| there.1).unwrap_or_default();
        self.drop_references(&before, &record.references);
        record.version = self.log(log::HOST, "", pattern.as_str(), What::Put);
        let now = (record.version, record.references);
        self.there.hosts.insert(pattern.clone(), now);
        self.hosts.insert(pattern, Some(record));
        Ok(())
    }

    fn remove_host(&mut self, pattern: HostPattern, expect: Precondition) -> Result<()> {
        let there = self.there.hosts.get(&pattern).copied();
        expect.check(&pattern, there.map(|there| there.0))?;
        let Some((_, references)) = there else {
            return Ok(());
        };
        self.drop_references(&references, &References::default());
        self.log(log::HOST, "", pattern.as_str(), What::Removed);
        self.there.hosts.remove(&pattern);
        self.hosts.insert(pattern, None);
        Ok(())
    }

    fn put_document(
        &mut self,
        mut document: Document<SealedBytes>,
        expect: Precondition,
    ) -> Result<()> {
        let id = document.id.clone();
        expect.check(&id, self.there.documents.get(&id).copied())?;
        document.version = self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Put);
        self.there.documents.insert(id.clone(), document.version);
        self.documents.insert(id, Some(document));
        Ok(())
    }

    fn remove_document(&mut self, id: DocumentId, expect: Precondition) -> Result<()> {
        let there = self.there.documents.remove(&id);
        expect.check(&id, there)?;
        if there.is_some() {
            self.log(log::DOCUMENT, id.kind.as_str(), &id.key, What::Removed);
            self.documents.insert(id, None);
        }
        Ok(())
    }

    fn drop_references(&mut self, before: &References, after: &References) {
        let gone = |(key_type, id): &(KeyType, CredentialId)| after.of(*key_type) != Some(*id);
        let gone = before.iter().filter(gone).map(|(_, id)| id);
        self.dropped.extend(gone);
    }
}
