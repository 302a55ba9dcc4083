//! `sekisho cert list`

use std::collections::HashSet;

use anyhow::ensure;
use sekisho_certs::{
    Catalog, Clock, CredentialFilter, HostFilter, HostName, Lineage, Listed, SealedBytes, Sealer,
    StoredCredential,
};

use crate::cli::cert::Leaf;
use crate::cli::cert::view::{self, View};
use crate::cli::filter::FilterArgs;
use crate::cli::lineage;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    filter: FilterArgs,
    /// As a JSON array, one element per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let (catalog, filter) = (sealer.catalog().as_ref(), &args.filter);
    let which = match (filter.failing, filter.no_cert) {
        (true, _) => Some(Listed::Failing),
        (false, true) => Some(Listed::Without),
        (false, false) => None,
    };
    let header = which.map_or(view::COLUMNS, |_| lineage::COLUMNS);
    let mut listing = Listing::of_rows(args.json, &header, filter.count);
    match which {
        Some(which) => lineages(catalog, which, filter, &mut listing).await?,
        None => credentials(catalog, filter, &mut listing).await?,
    }
    listing.end()?;
    Ok(Ended::Done)
}

/// Lists credentials: by the hosts that refer to them if the filter names some.
async fn credentials(
    catalog: &dyn Catalog,
    args: &FilterArgs,
    listing: &mut Listing,
) -> Result<()> {
    let source = args.source();
    let of_source = source.map(CredentialFilter::Origin);
    let ends = args.ends(Clock::System.now());
    let all = [ends, of_source].into_iter().flatten();
    let filters: Vec<_> = all.chain([CredentialFilter::All]).collect();
    if args.tenant.is_some() || args.under.is_some() {
        return of_hosts(catalog, args, &filters, listing).await;
    }
    let mut after = None;
    loop {
        let page = catalog.list_credentials(&filters[0], after, PAGE).await?;
        write(&page.credentials, &filters, listing)?;
        if page.next.is_none() {
            return Ok(());
        }
        after = page.next;
    }
}

async fn of_hosts(
    catalog: &dyn Catalog,
    args: &FilterArgs,
    filters: &[CredentialFilter],
    listing: &mut Listing,
) -> Result<()> {
    let filter = HostFilter {
        origin: None,
        ..args.hosts()
    };
    let (mut after, mut seen) = (None, HashSet::new());
    loop {
        let page = catalog.list_hosts(&filter, after.as_ref(), PAGE).await?;
        let ids = page.hosts.iter();
        let ids = ids.flat_map(|record| record.references.iter());
        let ids = ids.map(|(_, id)| id).filter(|id| seen.insert(*id));
        let ids: Vec<_> = ids.collect();
        ensure!(
            seen.len() <= MAX_SEEN,
            "these hosts have more than {MAX_SEEN} certificates; name a tenant or domain with fewer"
        );
        write(&catalog.credentials(&ids).await?, filters, listing)?;
        if page.next.is_none() {
            return Ok(());
        }
        after = page.next;
    }
}

/// Lists those of these credentials that each filter admits.
fn write(
    credentials: &[StoredCredential<SealedBytes>],
    filters: &[CredentialFilter],
    listing: &mut Listing,
) -> Result<()> {
    let is_shown =
        |one: &&StoredCredential<SealedBytes>| filters.iter().all(|filter| filter.admits(one));
    for credential in credentials.iter().filter(is_shown) {
        // A certificate whose leaf can't be read is counted, too.
        if listing.only_counts() {
            continue;
        }
        let leaf = Leaf::of(credential)?;
        listing.row(
            || View::new(credential, &leaf),
            || view::cells(credential, &leaf),
        )?;
    }
    Ok(())
}

async fn lineages(
    catalog: &dyn Catalog,
    which: Listed,
    args: &FilterArgs,
    listing: &mut Listing,
) -> Result<()> {
    if args.origin.is_some() {
        let why = "--origin: what has no certificate, or fails, was brought by no source";
        return Err(Usage(why.into()).into());
    }
    let admits = |one: &Lineage<SealedBytes>| {
        let under = |name: &HostName| one.names.iter().any(|own| name.holds(own.as_str()));
        args.tenant.as_ref().is_none_or(|own| one.tenant == *own)
            && args.under.as_ref().is_none_or(under)
    };
    let mut after = None;
    loop {
        let page = catalog.list_lineages(which, after.as_ref(), PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.name.clone());
        let now = Clock::System.now();
        for one in page.iter().filter(|one| admits(one)) {
            let none: &[StoredCredential<SealedBytes>] = &[];
            listing.row(
                || lineage::View::new(one, none, now),
                || lineage::cells(one, now),
            )?;
        }
    }
}

/// Credentials whose ids are remembered, so that none is listed twice: some 50 MB.
const MAX_SEEN: usize = 2_000_000;

const EXAMPLES: &str = "\
Examples:
  sekisho cert list
  sekisho cert list --failing
  sekisho cert list --expiring 30d --count
  sekisho cert list --under shop.example
  sekisho cert list --json | jq -r '.[] | select(.not_after < \"2027\") | .id'";
