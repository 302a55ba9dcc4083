//! `sekisho host list`

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasher as _;
use std::{io, mem};

use sekisho_certs::{
    Catalog, Clock, CredentialFilter, HostFilter, HostPattern, HostRecord, Listed, Sealer,
};

use crate::cli::filter::FilterArgs;
use crate::cli::host::view::{self, View};
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// Only those that are suspended
    #[arg(long)]
    suspended: bool,
    /// Begin after this name
    ///
    /// Names come in the order of their bytes, with --under but without --tenant in that of the
    /// domains, and with --expiring or --expired in the order in which certificates end, unless
    /// --tenant, --under or --suspended is beside it.
    #[arg(
        long,
        value_name = "NAME",
        conflicts_with_all = ["count", "expiring", "expired", "failing"]
    )]
    after: Option<HostPattern>,
    /// List at most so many [default: all]
    #[arg(long, value_name = "N", conflicts_with = "count")]
    limit: Option<usize>,
    /// As a JSON array, one host per line
    #[arg(long)]
    json: bool,
    /// Print the hashes of passwords, not digests of them
    #[arg(long)]
    secrets: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let mut list = List {
        catalog: sealer.catalog().as_ref(),
        filter: HostFilter {
            suspended: args.suspended,
            ..args.filter.hosts()
        },
        secrets: args.secrets,
        left: args.limit.unwrap_or(usize::MAX),
        seen: HashSet::new(),
        listing: Listing::of_rows(args.json, &view::COLUMNS, args.filter.count),
    };
    let ends = args.filter.ends(Clock::System.now());
    // A source may have brought all hosts, and most have no tenant.
    let (filter, tenant) = (&list.filter, list.filter.tenant.as_ref());
    let is_of_tenant = tenant.is_some_and(|tenant| !tenant.as_str().is_empty());
    let has_few = is_of_tenant || filter.under.is_some() || filter.suspended;
    match &ends {
        Some(ends) if !has_few => list.by_end(ends).await?,
        None if args.filter.failing => list.failing().await?,
        _ => list.all(ends.as_ref(), args.after.clone()).await?,
    }
    list.listing.end()?;
    Ok(Ended::Done)
}

/// List that is being written.
struct List<'a> {
    catalog: &'a dyn Catalog,
    filter: HostFilter,
    secrets: bool,
    /// How many hosts may follow.
    left: usize,
    /// Hashes of the hosts that were found by their certificates, some 20 bytes each.
    seen: HashSet<u64>,
    listing: Listing,
}

impl List<'_> {
    /// Lists the hosts that the catalog's own lists find, of these only those with a
    /// certificate that ends then. A page has as many rows for any limit, since a second
    /// condition may admit few of them.
    async fn all(
        &mut self,
        ends: Option<&CredentialFilter>,
        mut after: Option<HostPattern>,
    ) -> Result<()> {
        while self.left > 0 {
            let listed = self.catalog.list_hosts(&self.filter, after.as_ref(), PAGE);
            let mut page = listed.await?;
            if let Some(ends) = ends {
                let ids = page.hosts.iter().flat_map(|one| one.references.iter());
                let ids: Vec<_> = ids.map(|(_, id)| id).collect();
                let found = self.catalog.credentials(&ids).await?.into_iter();
                let found = found.filter(|one| ends.admits(one)).map(|one| one.id);
                let found: HashSet<_> = found.collect();
                let is_of =
                    |one: &HostRecord| one.references.iter().any(|(_, id)| found.contains(&id));
                page.hosts.retain(is_of);
            }
            page.hosts.iter().try_for_each(|record| self.show(record))?;
            if page.next.is_none() {
                break;
            }
            after = page.next;
        }
        Ok(())
    }

    /// Lists hosts in the order in which their certificates end.
    async fn by_end(&mut self, ends: &CredentialFilter) -> Result<()> {
        let mut after = None;
        while self.left > 0 {
            let limit = self.left.min(PAGE);
            let page = self.catalog.list_credentials(ends, after, limit).await?;
            let mut names = Vec::new();
            for credential in &page.credentials {
                let mut last: Option<HostPattern> = None;
                loop {
                    let found = self.catalog.hosts_of(credential.id, last.as_ref(), PAGE);
                    let found = found.await?;
                    last = found.last().filter(|_| found.len() == PAGE).cloned();
                    names.extend(found);
                    if names.len() >= PAGE {
                        self.show_named(mem::take(&mut names)).await?;
                    }
                    if last.is_none() {
                        break;
                    }
                }
            }
            self.show_named(names).await?;
            if page.next.is_none() {
                break;
            }
            after = page.next;
        }
        Ok(())
    }

    /// Lists the hosts of lineages whose last attempt failed.
    async fn failing(&mut self) -> Result<()> {
        let mut after = None;
        while self.left > 0 {
            let (catalog, which) = (self.catalog, Listed::Failing);
            let page = catalog.list_lineages(which, after.as_ref(), PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            let names = page.into_iter().flat_map(|lineage| lineage.names);
            self.show_named(names.collect()).await?;
        }
        Ok(())
    }

    /// Shows the hosts of these names that the filter admits, in their order, each once.
    async fn show_named(&mut self, names: Vec<HostPattern>) -> Result<()> {
        let records = self.catalog.hosts(&names).await?.into_iter();
        let mut records: HashMap<_, _> = records.map(|one| (one.pattern.clone(), one)).collect();
        for record in names.into_iter().filter_map(|name| records.remove(&name)) {
            let hash = self.seen.hasher().hash_one(&record.pattern);
            if self.filter.admits(&record) && self.seen.insert(hash) {
                self.show(&record)?;
            }
        }
        Ok(())
    }

    fn show(&mut self, record: &HostRecord) -> io::Result<()> {
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        let secrets = self.secrets;
        self.listing.row(
            || View::new(record, secrets),
            || view::cells(record, secrets),
        )
    }
}

const EXAMPLES: &str = "\
A terminal gets a table, a pipe tabs between the columns. --json gives one array
with one host per line, written as it is read: a list of any length is a stream.

Examples:
  sekisho host list
  sekisho host list --after shop.example --limit 100
  sekisho host list --tenant anna --expiring 30d
  sekisho host list --under shop.example --count
  sekisho host list --json | jq -r '.[] | select(.disabled) | .name'";
