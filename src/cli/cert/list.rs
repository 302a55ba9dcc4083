//! `sekisho cert list`

use sekisho_certs::{
    Catalog, Clock, CredentialFilter, Listed, SealedBytes, Sealer, StoredCredential,
};

use crate::cli::cert::Leaf;
use crate::cli::cert::view::{self, View};
use crate::cli::lineage;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// List the lineages whose last attempt failed, instead
    #[arg(long)]
    failing: bool,
    /// As a JSON array, one element per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let catalog = sealer.catalog().as_ref();
    let mut listing = Listing::new(args.json);
    match args.failing {
        true => failing(catalog, &mut listing).await?,
        false => credentials(catalog, &mut listing).await?,
    }
    listing.end()?;
    Ok(Ended::Done)
}

async fn credentials(catalog: &dyn Catalog, listing: &mut Listing) -> Result<()> {
    let mut after = None;
    loop {
        let listed = catalog.list_credentials(&CredentialFilter::All, after, PAGE);
        let page = listed.await?;
        for credential in &page.credentials {
            let leaf = Leaf::of(credential)?;
            listing.push(
                || View::new(credential, &leaf),
                || view::line(credential, &leaf),
            )?;
        }
        if page.next.is_none() {
            return Ok(());
        }
        after = page.next;
    }
}

async fn failing(catalog: &dyn Catalog, listing: &mut Listing) -> Result<()> {
    let mut after = None;
    loop {
        let page = catalog.list_lineages(Listed::Failing, after.as_ref(), PAGE);
        let page = page.await?;
        let Some(last) = page.last() else {
            return Ok(());
        };
        after = Some(last.name.clone());
        let now = Clock::System.now();
        for one in &page {
            let none: &[StoredCredential<SealedBytes>] = &[];
            listing.push(
                || lineage::View::new(one, none, now),
                || lineage::line(one, now),
            )?;
        }
    }
}

const EXAMPLES: &str = "\
Ids grow with time: what was stored first is listed first. --failing lists by
name what could not be issued or renewed: state, next attempt, and the last
error with its time.

Examples:
  sekisho cert list
  sekisho cert list --failing
  sekisho cert list --json | jq -r '.[] | select(.not_after < \"2027\") | .id'";
