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
    /// State after the batches of a dry run, which no store has.
    foreseen: Option<Foreseen>,
}

/// Records that differ from the store's. They grow with the import.
#[derive(Default)]
struct Foreseen {
    hosts: HashMap<HostPattern, HostRecord>,
    credentials: HashMap<CredentialId, KnownCert>,
}

impl<'a> Target<'a> {
    pub(crate) fn new(sealer: Option<&'a Sealer>, is_dry_run: bool) -> Self {
        let foreseen = is_dry_run.then(Foreseen::default);
        Self { sealer, foreseen }
    }

    /// Returns the store that is to be written; none in a dry run.
    pub(super) fn written(&self) -> Option<&'a Sealer> {
        self.sealer.filter(|_| self.foreseen.is_none())
    }

    pub(super) fn catalog(&self) -> Option<&'a dyn Catalog> {
        self.sealer.map(|sealer| sealer.catalog().as_ref())
    }

    /// Reads the records of these hosts that exist.
    pub(super) async fn hosts(&self, patterns: &HashSet<HostPattern>) -> Result<Vec<HostRecord>> {
        let foreseen = self.foreseen.as_ref().map(|foreseen| &foreseen.hosts);
        let foresee = |host: &HostPattern| foreseen.and_then(|hosts| hosts.get(host));
        let mut records: Vec<_> = patterns.iter().filter_map(foresee).cloned().collect();
        if let Some(catalog) = self.catalog() {
            let others = patterns.iter().filter(|host| foresee(host).is_none());
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
        let foreseen = self.foreseen.iter().flat_map(|foreseen| {
            let found = ids.iter().filter_map(|id| foreseen.credentials.get(id));
            found.cloned()
        });
        Ok(stored.iter().map(KnownCert::of).chain(foreseen).collect())
    }

    /// Notes what would have been written.
    pub(super) fn foresee(&mut self, writes: Vec<Write<Secret>>) {
        let foreseen = self.foreseen.get_or_insert_default();
        for write in writes {
            if let Write::PutHost(mut record, _) = write {
                // It is there from now on.
                record.version = record.version.max(1);
                foreseen.hosts.insert(record.pattern.clone(), record);
            } else if let Write::PutCredential(credential, _) = write {
                let known = KnownCert::of(&credential);
                foreseen.credentials.insert(credential.id, known);
            }
        }
    }
}
