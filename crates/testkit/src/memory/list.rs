//! Lists of hosts and credentials of the state. They sort all that there is: tests have little.

use std::collections::BTreeSet;

use super::state::State;
use sekisho_certs::credential::CredentialId;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{CredentialFilter, CredentialPage, HostFilter, HostPage, reversed};

impl State {
    pub(super) fn list_hosts(
        &self,
        filter: &HostFilter,
        after: Option<&HostPattern>,
        limit: usize,
    ) -> HostPage {
        let place = |pattern: &HostPattern| match filter.is_by_name() {
            true => reversed(pattern),
            false => pattern.to_string(),
        };
        let after = after.map(place);
        let records = self.hosts.values().filter(|one| filter.admits(one));
        let mut read: Vec<_> = records.cloned().collect();
        read.retain(|one| {
            after
                .as_ref()
                .is_none_or(|after| place(&one.pattern) > *after)
        });
        read.sort_by_key(|one| place(&one.pattern));
        read.truncate(limit);
        HostPage::of(read, filter, limit)
    }

    pub(super) fn tenants(&self, after: Option<&Tenant>, limit: usize) -> Vec<Tenant> {
        let all: BTreeSet<_> = self.hosts.values().map(|one| &one.tenant).collect();
        let behind = |one: &&Tenant| after.is_none_or(|after| *one > after);
        let listed = all.into_iter().filter(behind).take(limit);
        listed.cloned().collect()
    }

    pub(super) fn list_credentials(
        &self,
        filter: &CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> CredentialPage {
        let credentials = self.credentials.values().filter(|one| filter.admits(one));
        let mut read: Vec<_> = credentials.cloned().collect();
        read.retain(|one| after.is_none_or(|after| filter.place(one) > after));
        read.sort_by_key(|one| filter.place(one));
        read.truncate(limit);
        CredentialPage::of(read, filter, limit)
    }
}
