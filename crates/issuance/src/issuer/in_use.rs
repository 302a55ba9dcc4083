//! Names of a lineage that are still in use.

use sekisho_certs::{CredentialId, HostPattern, StoreError};

use super::attempt::Attempt;
use super::failure::Failure;

impl Attempt<'_> {
    /// Returns the names to order: of a certificate in use those that hosts which refer
    /// to it need, of a first one those that have a record of the lineage's tenant, or
    /// get one with the certificate.
    pub(super) async fn names_in_use(&self) -> Result<Vec<HostPattern>, Failure> {
        if self.state.ends {
            return Err(Failure::Unused);
        }
        let names = match &self.current {
            Some(current) => self.needed(current.id).await?,
            None => self.with_records().await?,
        };
        match names.is_empty() {
            true => Err(Failure::Unused),
            false => Ok(names),
        }
    }

    async fn needed(&self, id: CredentialId) -> Result<Vec<HostPattern>, Failure> {
        let catalog = self.issuer.sealer.catalog();
        let mut missing = self.lineage.names.clone();
        let mut after = None;
        // Below a wildcard any number of hosts may refer to its certificate.
        while !missing.is_empty() {
            let page = catalog.hosts_of(id, after.as_ref(), PAGE).await?;
            missing.retain(|name| !page.iter().any(|host| name.includes(host)));
            match page.len() {
                PAGE => after = page.into_iter().next_back(),
                _ => break,
            }
        }
        let names = self.lineage.names.iter();
        Ok(names
            .filter(|name| !missing.contains(name))
            .cloned()
            .collect())
    }

    /// Returns all hosts that refer to a credential.
    pub(super) async fn hosts_of(&self, id: CredentialId) -> Result<Vec<HostPattern>, StoreError> {
        let catalog = self.issuer.sealer.catalog();
        let mut all: Vec<HostPattern> = Vec::new();
        loop {
            let page = catalog.hosts_of(id, all.last(), PAGE).await?;
            let is_last = page.len() < PAGE;
            all.extend(page);
            if is_last {
                return Ok(all);
            }
        }
    }

    async fn with_records(&self) -> Result<Vec<HostPattern>, Failure> {
        let names = &self.lineage.names;
        let records = self.issuer.sealer.catalog().hosts(names).await?;
        let is_in_use = |name: &&HostPattern| {
            let record = records.iter().find(|record| record.pattern == **name);
            record.map_or(self.state.makes_hosts, |record| {
                record.unreadable.is_none() && record.tenant == self.lineage.tenant
            })
        };
        Ok(names.iter().filter(is_in_use).cloned().collect())
    }
}

const PAGE: usize = 1000;
