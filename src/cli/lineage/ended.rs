//! Lineages that end when hosts no longer refer to their certificates.

use std::collections::HashMap;

use sekisho_certs::store::Write;
use sekisho_certs::{
    Catalog, CredentialId, Fence, HostPattern, Lineage, References, SealedBytes, Secret,
};

use crate::cli::failure::Result;

/// References to credentials that a batch changes.
#[derive(Default)]
pub(crate) struct Changed {
    /// Hosts that no longer refer to a credential.
    dropped: HashMap<CredentialId, Vec<HostPattern>>,
    /// Existing hosts that get their first credential.
    first: Vec<HostPattern>,
    /// Host that is removed.
    removed: Option<HostPattern>,
}

impl Changed {
    /// Adds a host; `before` is none if it is new.
    pub(crate) fn add(
        &mut self,
        host: &HostPattern,
        before: Option<References>,
        after: References,
    ) {
        let Some(before) = before else { return };
        for (key_type, id) in before.iter() {
            if after.of(key_type) != Some(id) {
                self.dropped.entry(id).or_default().push(host.clone());
            }
        }
        if before.is_empty() && !after.is_empty() {
            self.first.push(host.clone());
        }
    }

    /// Adds a host that is removed.
    pub(crate) fn remove(&mut self, host: &HostPattern, before: Option<References>) {
        self.add(host, before, References::default());
        self.removed = Some(host.clone());
    }

    /// Tells whether a host no longer refers to a credential.
    pub(crate) fn drops(&self, id: CredentialId, host: &HostPattern) -> bool {
        self.dropped
            .get(&id)
            .is_some_and(|hosts| hosts.contains(host))
    }

    /// Returns the lineages that end with the batch: those whose credential loses its
    /// last host, and those that were to get hosts the first certificate.
    ///
    /// An issuer would go on with both, and replace what the operator has chosen.
    pub(crate) async fn ended(&self, catalog: &dyn Catalog) -> Result<Vec<Lineage<SealedBytes>>> {
        let ids: Vec<_> = self.dropped.keys().copied().collect();
        let mut ended = match ids.as_slice() {
            [] => Vec::new(),
            ids => catalog.lineages_of(ids).await?,
        };
        let mut still_used = Vec::new();
        for lineage in &ended {
            still_used.push(self.is_used(catalog, lineage).await?);
        }
        let mut still_used = still_used.into_iter();
        ended.retain(|_| still_used.next() == Some(false));
        if !self.first.is_empty() {
            let names: Vec<_> = self.first.iter().map(Into::into).collect();
            let mut waiting = catalog.lineages(&names).await?;
            waiting.retain(|one| {
                let is_served = |name| self.first.contains(name);
                one.credential.is_none() && one.names.iter().all(is_served)
            });
            ended.append(&mut waiting);
        }
        if let Some(host) = &self.removed {
            // It only keeps why the host was refused. What is due ends by itself.
            let mut refused = catalog.lineages(&[host.into()]).await?;
            refused.retain(|one| one.credential.is_none() && one.due.is_none());
            ended.append(&mut refused);
        }
        Ok(ended)
    }

    /// Tells whether a host refers to a lineage's credential behind the batch.
    async fn is_used(&self, catalog: &dyn Catalog, lineage: &Lineage<SealedBytes>) -> Result<bool> {
        let Some(id) = lineage.credential else {
            return Ok(false);
        };
        let dropped = self.dropped.get(&id).map_or(0, Vec::len);
        let hosts = catalog.hosts_of(id, None, dropped + 1).await?;
        Ok(hosts.iter().any(|host| !self.drops(id, host)))
    }
}

/// Makes the write that ends a lineage. Whoever works on it loses its claim.
pub(crate) fn end<S>(lineage: &Lineage<S>) -> Write<Secret> {
    Write::RemoveLineage(lineage.name.clone(), Fence::Any)
}
