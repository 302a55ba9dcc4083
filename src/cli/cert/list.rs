//! `sekisho cert list`

use sekisho_certs::Catalog;

use crate::cli::cert::Leaf;
use crate::cli::cert::view::{self, View};
use crate::cli::failure::{Ended, Result};
use crate::cli::output::{Listing, Output, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// As a JSON array, one credential per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(catalog: &dyn Catalog, args: &Args) -> Result<Ended> {
    let mut output = Output::new();
    let mut listing = Listing::new(&mut output, args.json);
    let mut after = None;
    loop {
        let page = catalog.list_credentials(after, PAGE).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        for credential in &page {
            let leaf = Leaf::of(credential)?;
            listing.push(
                || View::new(credential, &leaf),
                || view::line(credential, &leaf),
            )?;
        }
    }
    listing.end()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Ids grow with time: what was stored first is listed first.

Examples:
  sekisho cert list
  sekisho cert list --json | jq -r '.[] | select(.not_after < \"2027\") | .id'";
