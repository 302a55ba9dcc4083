//! `sekisho host list`

use std::collections::{HashMap, HashSet};
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
    /// Begin behind this name
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
    match args.filter.ends(Clock::System.now()) {
        Some(ends) => list.by_end(&ends).await?,
        None if args.filter.failing => list.failing().await?,
        None => list.all(args.after.clone()).await?,
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
    /// Hosts that were shown, and may be found again.
    seen: HashSet<HostPattern>,
    listing: Listing,
}

impl List<'_> {
    /// Lists the hosts that the catalog's own lists find.
    async fn all(&mut self, mut after: Option<HostPattern>) -> Result<()> {
        while self.left > 0 {
            let limit = self.left.min(PAGE);
            let listed = self.catalog.list_hosts(&self.filter, after.as_ref(), limit);
            let page = listed.await?;
            page.hosts.iter().try_for_each(|record| self.show(record))?;
            if page.next.is_none() {
                break;
            }
            after = page.next;
        }
        Ok(())
    }

    /// Lists hosts in the order in which their certificates end. A host with one certificate
    /// is found once.
    async fn by_end(&mut self, ends: &CredentialFilter) -> Result<()> {
        let may_repeat = |record: &HostRecord| record.references.iter().count() > 1;
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
                        self.show_named(mem::take(&mut names), may_repeat).await?;
                    }
                    if last.is_none() {
                        break;
                    }
                }
            }
            self.show_named(names, may_repeat).await?;
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
            let (catalog, limit) = (self.catalog, self.left.min(PAGE));
            let listed = catalog.list_lineages(Listed::Failing, after.as_ref(), limit);
            let page = listed.await?;
            let Some(last) = page.last() else { break };
            after = Some(last.name.clone());
            let names = page.into_iter().flat_map(|lineage| lineage.names);
            self.show_named(names.collect(), |_| true).await?;
        }
        Ok(())
    }

    /// Shows the hosts of these names that the filter admits, in their order, each once.
    async fn show_named(
        &mut self,
        names: Vec<HostPattern>,
        may_repeat: impl Fn(&HostRecord) -> bool,
    ) -> Result<()> {
        let records = self.catalog.hosts(&names).await?.into_iter();
        let mut records: HashMap<_, _> = records.map(|one| (one.pattern.clone(), one)).collect();
        for record in names.into_iter().filter_map(|name| records.remove(&name)) {
            if self.filter.admits(&record)
                && (!may_repeat(&record) || self.seen.insert(record.pattern.clone()))
            {
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
Names come in the order of their bytes, with --under in that of the domains, with
--expiring and --expired in the order in which certificates end. A terminal gets a
table, a pipe tabs between the columns. --json gives one array with one host per
line, written as it is read, so that a list of any length is a stream.

Examples:
  sekisho host list
  sekisho host list --after shop.example --limit 100
  sekisho host list --tenant anna --expiring 30d
  sekisho host list --under shop.example --count
  sekisho host list --json | jq -r '.[] | select(.disabled) | .name'";
