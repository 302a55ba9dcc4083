//! What a batch changes, worked out from what is stored, before anything is
//! written.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::{HostRecord, References};
use sekisho_certs::store::precondition;
use sekisho_certs::store::{Document, DocumentId, Precondition, Result, What, Write};

use super::super::log;

/// What is stored of the things that a batch writes.
#[derive(Debug)]
pub(super) struct Stored {
    /// Number of the last change. The plan counts it on.
    pub(super) number: u64,
    /// Number of the last change that the log no longer keeps.
    pub(super) forgotten: u64,
    /// Version and type.
    pub(super) credentials: HashMap<CredentialId, (u64, KeyType)>,
    /// Version and references.
    pub(super) hosts: HashMap<HostPattern, (u64, References)>,
    /// Version.
    pub(super) documents: HashMap<DocumentId, u64>,
}

/// What is to be written, in the order of the keys. Of several writes of one
/// thing, the last counts.
#[derive(Debug)]
pub(super) struct Plan {
    pub(super) stored: Stored,
    pub(super) credentials: BTreeMap<CredentialId, StoredCredential<SealedBytes>>,
    /// None where a host is removed.
    pub(super) hosts: BTreeMap<HostPattern, Option<HostRecord>>,
    /// None where a document is removed.
    pub(super) documents: BTreeMap<DocumentId, Option<Document<SealedBytes>>>,
    pub(super) changes: Vec<Entry>,
    /// Credentials that a host no longer refers to.
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
    /// A conflict with what is stored: nothing is to be written then.
    pub(super) fn new(stored: Stored, writes: Vec<Write<SealedBytes>>) -> Result<Self> {
        let mut plan = Self {
            stored,
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

    /// Takes the next number for a change, and announces it.
    pub(super) fn log(&mut self, subject: &'static str, kind: &str, key: &str, what: What) -> u64 {
        self.stored.number += 1;
        self.changes.push(Entry {
            number: self.stored.number,
            subject,
            kind: kind.to_owned(),
            key: key.to_owned(),
            what,
        });
        self.stored.number
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
            // Nobody can have loaded it: it is not announced.
            None => self.stored.number,
            Some((_, old)) if old != key_type => {
                return Err(precondition::other_type(id, old.as_str(), key_type));
            }
            Some(_) => self.log(log::CREDENTIAL, "", &id.to_string(), What::Put),
        };
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
        let version = self.log(log::HOST, "", pattern.as_str(), what(record.as_ref()));
        if let Some(record) = &mut record {
            record.version = version;
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
        let kind = id.kind.as_str();
        let version = self.log(log::DOCUMENT, kind, &id.key, what(document.as_ref()));
        if let Some(document) = &mut document {
            document.version = version;
            self.stored.documents.insert(id.clone(), version);
        }
        self.documents.insert(id, document);
        Ok(())
    }
}

fn what<T>(put: Option<&T>) -> What {
    put.map_or(What::Removed, |_| What::Put)
}
