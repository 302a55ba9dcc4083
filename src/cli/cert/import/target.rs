//! Target of an import: a store, or the state that a dry run foresees.

use std::collections::{HashMap, HashSet};

use sekisho_certs::store::Write;
use sekisho_certs::{Catalog, CredentialId, HostPattern, HostRecord, Sealer, Secret};

use super::plan::KnownCert;
use crate::terminal::failure::Result;

/// Target of an import.
pub(crate) struct Target<'a> {
    /// Store; none for the dry run of an import that would make it.
    sealer: Option<&'a Sealer>,
    is_dry_run: bool,
    /// Records after the batches of a dry run, which no store has. They grow with the import.
    hosts: HashMap<HostPattern, HostRecord>,
    credentials: HashMap<CredentialId, KnownCert>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(sealer: Option<&'a Sealer>, is_dry_run: bool) -> Self {
        Self {
            sealer,
            is_dry_run,
            hosts: HashMap::new(),
            credentials: HashMap::new(),
        }
    }

    /// Returns the store that is to be written; none in a dry run.
    pub(super) fn written(&self) -> Option<&'a Sealer> {
        self.sealer.filter(|_| !self.is_dry_run)
    }

    pub(super) fn catalog(&self) -> Option<&'a dyn Catalog> {
        self.sealer.map(|sealer| sealer.catalog().as_ref())
    }

    /// Reads the records of these hosts that exist.
    pub(super) async fn hosts(&self, patterns: &HashSet<HostPattern>) -> Result<Vec<HostRecord>> {
        let foreseen = patterns.iter().filter_map(|host| self.hosts.get(host));
        let mut records: Vec<_> = foreseen.cloned().collect();
        if let Some(catalog) = self.catalog() {
            let others = patterns.iter();
            let others = others.filter(|host| !self.hosts.contains_key(*host));
            let others: Vec<_> = others.cloned().collect();
            records.extend(catalog.hosts(&others).await?);
        }
        Ok(records)
    }

    /// Reads these credentials, if they exist.
    pub(super) async fn credentials(&self, ids: &[CredentialId]) -> Result<Vec<KnownCert>> {
        let stored = match self.catalog() {
            Some(catalog) => catalog.credentials(ids).await?,
            None => Vec::new(),
        };
        let foreseen = ids.iter().filter_map(|id| self.credentials.get(id));
        let known = stored.iter().map(KnownCert::of).chain(foreseen.cloned());
        Ok(known.collect())
    }

    /// Notes what would have been written.
    pub(super) fn foresee(&mut self, writes: Vec<Write<Secret>>) {
        for write in writes {
            if let Write::PutHost(mut record, _) = write {
                // A host with version 0 would be made again by a later batch.
                record.version = record.version.max(1);
                self.hosts.insert(record.pattern.clone(), record);
            } else if let Write::PutCredential(credential, _) = write {
                let known = KnownCert::of(&credential);
                self.credentials.insert(credential.id, known);
            }
        }
    }
}
