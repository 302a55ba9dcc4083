//! Lineages that end when hosts no longer refer to their certificates.

use std::collections::HashMap;

use anyhow::Context;
use sekisho_certs::store::Write;
use sekisho_certs::{
    Catalog, Clock, CredentialId, Fence, HostPattern, Lineage, References, SealedBytes, Sealer,
    Secret,
};
use sekisho_issuance::issuer::end_of;

use crate::terminal::failure::Result;

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
        let found = match ids.as_slice() {
            [] => Vec::new(),
            ids => catalog.lineages_of(ids).await?,
        };
        let mut ended = Vec::new();
        for lineage in found {
            if !self.is_used(catalog, &lineage).await? {
                ended.push(lineage);
            }
        }
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

/// Makes the writes that end lineages. Whoever works on one loses its claim. One whose
/// order has TXT records stays until a server has removed them: nothing else knows them.
pub(crate) async fn end(
    sealer: &Sealer,
    lineages: &[Lineage<SealedBytes>],
) -> Result<Vec<Write<Secret>>> {
    let mut writes = Vec::with_capacity(lineages.len());
    for lineage in lineages {
        let opened = match lineage.order {
            Some(_) => sealer.open_lineage(lineage.clone()).await.ok(),
            None => None,
        };
        let records = opened.and_then(|opened| end_of(opened.order.as_ref()));
        writes.push(match records {
            None => Write::RemoveLineage(lineage.name.clone(), Fence::Any),
            Some(records) => {
                let names = lineage.names.iter().cloned();
                let left = Lineage::new(lineage.tenant.clone(), names);
                let mut left = left.context("a lineage has names")?;
                left.name = lineage.name.clone();
                left.due = Some(Clock::System.now());
                left.turn = lineage.turn;
                left.order = Some(records);
                Write::PutLineage(left, Fence::Any)
            }
        });
    }
    Ok(writes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::lineage::claims::fixture::{claimed, lineage};

    #[tokio::test]
    async fn a_lineage_with_records_stays_until_they_are_removed() {
        let records =
            br#"{"order": {"directory": "d", "url": "u", "names": [], "solver": "dns-01"},
            "records": [{"name": "a.example", "presented":
            {"fqdn": "_acme-challenge.a.example.", "zone": "example.", "value": "x"}}]}"#;
        for (order, stays) in [(&b"{}"[..], false), (&records[..], true)] {
            let (sealer, ..) = claimed().await;
            let mut there = lineage(&sealer).await;
            there.order = Some(Secret::new(order.to_vec()));
            let put = Write::PutLineage(there.clone(), Fence::Any);
            sealer.write(vec![put]).await.unwrap();
            let name = std::slice::from_ref(&there.name);
            let stored = sealer.catalog().lineages(name).await.unwrap();
            let writes = end(&sealer, &stored).await.unwrap();
            sealer.write(writes).await.unwrap();
            let left = sealer.catalog().lineages(name).await.unwrap().pop();
            assert_eq!(left.is_some(), stays);
            let Some(left) = left else { continue };
            assert!(left.due.is_some_and(|due| due <= Clock::System.now()));
            assert_eq!((left.claim.as_ref(), left.credential), (None, None));
            let kept = sealer.open_lineage(left).await.unwrap().order.unwrap();
            let text = String::from_utf8_lossy(kept.expose()).into_owned();
            assert!(
                text.contains("\"ends\":true") && text.contains("_acme"),
                "{text}"
            );
            assert!(!text.contains("\"url\""), "{text}");
        }
    }
}
