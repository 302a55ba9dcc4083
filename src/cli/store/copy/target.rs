//! Target store of a copy.

use std::collections::{BTreeSet, HashSet};

use anyhow::{anyhow, bail};
use sekisho_certs::lineage::{Fence, LineageName, Listed};
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{DocumentId, Precondition, Subject, What, Write};
use sekisho_certs::{
    Catalog, CredentialFilter, CredentialId, HostFilter, HostPattern, HostRecord, Origin, Sealer,
    Secret, StoreError, StoredCredential,
};

use super::contents::Item;
use super::marker::{self, Marker};
use crate::terminal::failure::Result;

/// Target of a copy. Each batch writes the marker, too: concurrent copies and
/// other writers cause a conflict.
pub(super) struct Target<'a> {
    source: &'a Sealer,
    pub(super) target: &'a Sealer,
    marker: Marker,
    /// Precondition on the marker.
    expect: Precondition,
}

impl<'a> Target<'a> {
    /// Takes an empty store, or a copy of this source without other changes.
    pub(super) async fn take(source: &'a Sealer, target: &'a Sealer) -> Result<Self> {
        let catalog = source.catalog().id().await?;
        // The position comes before the first read: later changes are then
        // followed.
        let position = source.catalog().head().await?;
        let mut taken = Self {
            source,
            target,
            marker: Marker { catalog, position },
            expect: Precondition::Absent,
        };
        match target.document(&marker::ID).await? {
            Some(document) => {
                let marker = Marker::read(&document).ok_or_else(|| {
                    anyhow!("the target is a copy that another version of sekisho made")
                })?;
                if marker.catalog != catalog {
                    bail!("the target is a copy of another store");
                }
                if !unwritten_since(target.catalog().as_ref(), document.version).await? {
                    bail!(
                        "the target was written since the copy was made, by something else; \
                         it is not overwritten: copy into a new store"
                    );
                }
                taken.marker = marker;
                taken.expect = Precondition::Version(document.version);
            }
            None if is_empty(target.catalog().as_ref()).await? => {}
            None => bail!(
                "the target holds something already and is no copy of this store; it is not \
                 overwritten: copy into a new store"
            ),
        }
        taken.write(Vec::new()).await?;
        Ok(taken)
    }

    /// Copies the source's changes, and returns the items; none if its log has a gap: any
    /// item may have changed.
    pub(super) async fn follow(&mut self) -> Result<Option<HashSet<Item>>> {
        let mut changed = HashSet::new();
        loop {
            let catalog = self.source.catalog();
            let page = catalog.changes(self.marker.position.number, PAGE).await?;
            let Some(reached) = page.continued(self.marker.position) else {
                // A comparison finds what the log lacks.
                self.marker.position = self.source.catalog().head().await?;
                self.write(Vec::new()).await?;
                return Ok(None);
            };
            if page.changes.is_empty() {
                return Ok(Some(changed));
            }
            let items = page.changes.iter().filter_map(|one| item(&one.subject));
            let items: Vec<_> = items.collect::<BTreeSet<_>>().into_iter().collect();
            // The marker is written with the items, in one transaction.
            self.marker.position = reached;
            self.make_equal(&items).await?;
            // The log announces a new credential only by its hosts.
            changed.extend(self.with_references(&items).await?);
        }
    }

    /// Makes these items equal to the source's.
    pub(super) async fn make_equal(&mut self, items: &[Item]) -> Result<()> {
        let mut conflict = match self.write(self.plan(items).await?).await {
            Err(StoreError::Conflict(what)) => what,
            other => return Ok(other?),
        };
        // A host may refer to a credential that was stored only now.
        for _ in 0..MAX_ATTEMPTS {
            let items = self.with_references(items).await?;
            match self.write(self.plan(&items).await?).await {
                Err(StoreError::Conflict(what)) => conflict = what,
                other => return Ok(other?),
            }
        }
        bail!("the target is written by something else: {conflict}")
    }

    async fn write(&mut self, mut batch: Vec<Write<Secret>>) -> Result<(), StoreError> {
        batch.push(Write::PutDocument(self.marker.document(), self.expect));
        self.target.write(batch).await?;
        let written = self.target.document(&marker::ID).await?;
        let written = written.ok_or_else(|| {
            StoreError::Conflict("the marker of the copy is gone from the target".into())
        })?;
        self.expect = Precondition::Version(written.version);
        Ok(())
    }

    async fn plan(&self, items: &[Item]) -> Result<Vec<Write<Secret>>> {
        let (mut ids, mut patterns, mut names) = (Vec::new(), Vec::new(), Vec::new());
        let mut writes = Vec::new();
        for item in items {
            match item {
                Item::Credential(id) => ids.push(*id),
                Item::Host(pattern) => patterns.push(pattern.clone()),
                Item::Lineage(name) => names.push(name.clone()),
                Item::Document(id) => writes.push(self.document(id).await?),
            }
        }
        let catalog = self.source.catalog();
        let credentials = catalog.credentials(&ids).await?;
        let credentials = self.source.open_credentials(credentials).await?;
        let hosts = catalog.hosts(&patterns).await?;
        let gone = gone(&ids, &credentials);
        // Origins hold for the versions that the target gives.
        writes.extend(credentials.into_iter().map(|one| {
            let mut one = one.into_sealable();
            one.origin = one.origin.map(|it| Origin::new(it.source));
            Write::PutCredential(one, Precondition::Any)
        }));
        let there: HashSet<_> = hosts.iter().map(|one| one.pattern.clone()).collect();
        let puts = hosts.into_iter().filter(|one| !refers(one, &gone));
        writes.extend(puts.map(|mut one| {
            one.origin = one.origin.map(|it| Origin::new(it.source));
            Write::PutHost(one, Precondition::Any)
        }));
        let removed = patterns.into_iter().filter(|one| !there.contains(one));
        writes.extend(removed.map(|one| Write::RemoveHost(one, Precondition::Any)));
        for id in gone {
            self.drop_credential(id, &mut writes).await?;
        }
        self.lineages(names, &mut writes).await?;
        Ok(writes)
    }

    async fn lineages(
        &self,
        names: Vec<LineageName>,
        writes: &mut Vec<Write<Secret>>,
    ) -> Result<()> {
        let mut gone: BTreeSet<_> = names.iter().cloned().collect();
        for stored in self.source.catalog().lineages(&names).await? {
            let mut lineage = self.source.open_lineage(stored).await?;
            lineage.claim = None;
            gone.remove(&lineage.name);
            writes.push(Write::PutLineage(lineage, Fence::Any));
        }
        let gone = gone.into_iter();
        writes.extend(gone.map(|name| Write::RemoveLineage(name, Fence::Any)));
        Ok(())
    }

    async fn document(&self, id: &DocumentId) -> Result<Write<Secret>> {
        Ok(match self.source.document(id).await? {
            Some(document) => Write::PutDocument(document, Precondition::Any),
            None => Write::RemoveDocument(id.clone(), Precondition::Any),
        })
    }

    /// Deletes a credential from the target. No write does this: a catalog
    /// deletes a credential with its last host. The batch therefore adds a
    /// temporary host that refers to it, and removes the host again.
    async fn drop_credential(
        &self,
        id: CredentialId,
        writes: &mut Vec<Write<Secret>>,
    ) -> Result<()> {
        let catalog = self.target.catalog();
        let stored = catalog.credentials(&[id]).await?;
        let Some(stored) = stored.first() else {
            return Ok(());
        };
        if !catalog.hosts_of(id, None, 1).await?.is_empty() {
            // Other hosts still refer to the credential: it is deleted with the
            // last of them.
            return Ok(());
        }
        let temporary = HostPattern::parse(TEMPORARY_HOST).expect("it is a name");
        let mut host = HostRecord::new(temporary.clone());
        host.references.set(stored.key_type, Some(id));
        writes.push(Write::PutHost(host, Precondition::Any));
        writes.push(Write::RemoveHost(temporary, Precondition::Any));
        Ok(())
    }

    /// Adds the credentials that the hosts among the items refer to.
    async fn with_references(&self, items: &[Item]) -> Result<Vec<Item>> {
        let patterns = items.iter().filter_map(|item| match item {
            Item::Host(pattern) => Some(pattern.clone()),
            Item::Credential(_) | Item::Lineage(_) | Item::Document(_) => None,
        });
        let patterns: Vec<_> = patterns.collect();
        let hosts = self.source.catalog().hosts(&patterns).await?;
        let referred = hosts.iter().flat_map(|host| host.references.iter());
        let referred = referred.map(|(_, id)| Item::Credential(id));
        let all: BTreeSet<_> = referred.chain(items.iter().cloned()).collect();
        Ok(all.into_iter().collect())
    }
}

fn gone<K>(ids: &[CredentialId], stored: &[StoredCredential<K>]) -> HashSet<CredentialId> {
    let stored: HashSet<_> = stored.iter().map(|one| one.id).collect();
    let gone = ids.iter().filter(|id| !stored.contains(id));
    gone.copied().collect()
}

/// Returns whether a host refers to a missing credential. Such a host changed
/// between two reads, and the log announces it.
fn refers(host: &HostRecord, gone: &HashSet<CredentialId>) -> bool {
    host.references.iter().any(|(_, id)| gone.contains(&id))
}

fn item(subject: &Subject) -> Option<Item> {
    match subject {
        Subject::Host(pattern) => Some(Item::Host(pattern.clone())),
        Subject::Credential(id) => Some(Item::Credential(*id)),
        Subject::Document(id) if marker::stays(&id.kind) => None,
        Subject::Document(id) => Some(Item::Document(id.clone())),
    }
}

async fn is_empty(catalog: &dyn Catalog) -> Result<bool> {
    let mut kind = String::new();
    while let Some(next) = catalog.next_document_kind(&kind).await? {
        if !marker::stays(&next) {
            return Ok(false);
        }
        kind = next.as_str().to_owned();
    }
    let lineages = catalog.list_lineages(Listed::All, None, 1).await?;
    let hosts = catalog.list_hosts(&HostFilter::default(), None, 1).await?;
    let listed = catalog.list_credentials(&CredentialFilter::All, None, 1);
    let credentials = listed.await?.credentials;
    Ok(lineages.is_empty() && hosts.hosts.is_empty() && credentials.is_empty())
}

/// Returns whether the marker's change is the last one. Deleted credentials of
/// its transaction and a change of the sealing key don't count.
async fn unwritten_since(catalog: &dyn Catalog, version: u64) -> Result<bool> {
    let page = catalog.changes(version, PAGE).await?;
    let ours = page.changes.iter().all(|change| match &change.subject {
        Subject::Credential(_) => change.what == What::Removed,
        Subject::Document(id) => *id == CHECK,
        Subject::Host(_) => false,
    });
    Ok(!page.gap && ours && page.changes.len() < PAGE)
}

/// Temporary host, in a reserved domain (RFC 2606, section 2).
const TEMPORARY_HOST: &str = "sekisho-copy.invalid";
/// Changes and items that are copied at once.
const PAGE: usize = 1000;
/// Attempts; more mean that another program writes the target.
const MAX_ATTEMPTS: usize = 3;
