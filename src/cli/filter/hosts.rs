//! Reads the hosts that a filter admits, page by page.

use std::collections::{HashMap, HashSet, VecDeque};

use sekisho_certs::{
    Catalog, CredentialFilter, CredentialId, HostFilter, HostPattern, HostRecord, LineageName,
    Listed,
};

use super::FilterArgs;
use crate::terminal::failure::Result;

/// Hosts in the order of the index that finds them.
pub(crate) struct Hosts<'a> {
    catalog: &'a dyn Catalog,
    filter: HostFilter,
    found_by: FoundBy,
    /// Hosts that were found, and may be found again.
    seen: HashSet<HostPattern>,
}

/// Index that finds the hosts, and how far it was read. None stands before its begin.
enum FoundBy {
    Record(Option<HostPattern>),
    Credential(ByCredential),
    Lineage(Option<LineageName>),
    /// Everything was read.
    Nothing,
}

/// Credentials in the order of their ends, and the hosts of each.
struct ByCredential {
    ends: CredentialFilter,
    after: Option<(i64, CredentialId)>,
    is_last: bool,
    /// Credentials whose hosts are not all found.
    waiting: VecDeque<CredentialId>,
    /// The last host that was found of the first of these.
    within: Option<HostPattern>,
}

impl<'a> Hosts<'a> {
    /// Begins to read the hosts of a filter after this pattern.
    pub(crate) fn after(
        catalog: &'a dyn Catalog,
        filter: HostFilter,
        after: Option<HostPattern>,
    ) -> Self {
        Self {
            catalog,
            filter,
            found_by: FoundBy::Record(after),
            seen: HashSet::new(),
        }
    }

    /// Begins to read the hosts of a filter, whose certificates are in this state, too.
    pub(crate) fn in_state(
        catalog: &'a dyn Catalog,
        filter: HostFilter,
        (args, now): (&FilterArgs, i64),
    ) -> Self {
        let mut hosts = Self::after(catalog, filter, None);
        if let Some(ends) = args.ends(now) {
            hosts.found_by = FoundBy::Credential(ByCredential {
                ends,
                after: None,
                is_last: false,
                waiting: VecDeque::new(),
                within: None,
            });
        } else if args.state.failing {
            hosts.found_by = FoundBy::Lineage(None);
        }
        hosts
    }

    /// Reads the next page of about `limit` hosts, which may be empty; none at the end.
    pub(crate) async fn next(&mut self, limit: usize) -> Result<Option<Vec<HostRecord>>> {
        let catalog = self.catalog;
        let patterns = match &mut self.found_by {
            FoundBy::Nothing => return Ok(None),
            FoundBy::Record(after) => {
                let listed = catalog.list_hosts(&self.filter, after.as_ref(), limit);
                let page = listed.await?;
                let next = page.next.map(|next| FoundBy::Record(Some(next)));
                self.found_by = next.unwrap_or(FoundBy::Nothing);
                return Ok(Some(page.hosts));
            }
            FoundBy::Credential(by) => by.patterns(catalog, limit).await?,
            FoundBy::Lineage(after) => {
                let listed = catalog.list_lineages(Listed::Failing, after.as_ref(), limit);
                let page = listed.await?;
                *after = page.last().map(|last| last.name.clone());
                page.into_iter().flat_map(|one| one.names).collect()
            }
        };
        if patterns.is_empty() {
            self.found_by = FoundBy::Nothing;
            return Ok(None);
        }
        let records = catalog.hosts(&patterns).await?;
        Ok(Some(self.admitted(&patterns, records)))
    }

    /// Returns the records that the filter admits in the order of these patterns, unless an
    /// earlier page had them.
    fn admitted(
        &mut self,
        patterns: &[HostPattern],
        records: Vec<HostRecord>,
    ) -> Vec<HostRecord> {
        let records = records.into_iter().map(|one| (one.pattern.clone(), one));
        let mut by_pattern: HashMap<_, _> = records.collect();
        let records = patterns.iter().filter_map(|one| by_pattern.remove(one));
        let admitted = records.filter(|record| {
            // A host with one credential is found once by the ends of these.
            let is_found_once = matches!(self.found_by, FoundBy::Credential(_))
                && record.references.iter().count() == 1;
            self.filter.admits(record)
                && (is_found_once || self.seen.insert(record.pattern.clone()))
        });
        admitted.collect()
    }
}

impl ByCredential {
    /// Finds at most `limit` hosts; none at the end.
    async fn patterns(&mut self, catalog: &dyn Catalog, limit: usize) -> Result<Vec<HostPattern>> {
        let mut patterns = Vec::new();
        while patterns.len() < limit {
            let Some(id) = self.waiting.front().copied() else {
                if self.is_last {
                    break;
                }
                let page = catalog.list_credentials(&self.ends, self.after, limit);
                let page = page.await?;
                self.waiting.extend(page.credentials.iter().map(|one| one.id));
                (self.after, self.is_last) = (page.next, page.next.is_none());
                continue;
            };
            let room = limit - patterns.len();
            let found = catalog.hosts_of(id, self.within.as_ref(), room).await?;
            self.within = found.last().filter(|_| found.len() == room).cloned();
            if self.within.is_none() {
                self.waiting.pop_front();
            }
            patterns.extend(found);
        }
        Ok(patterns)
    }
}
