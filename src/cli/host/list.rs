//! `sekisho host list`

use sekisho_certs::{HostFilter, HostPattern, Sealer};

use crate::cli::host::view::{self, View};
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Begin behind this name
    #[arg(long, value_name = "NAME")]
    after: Option<HostPattern>,
    /// List at most so many [default: all]
    #[arg(long, value_name = "N")]
    limit: Option<usize>,
    /// As a JSON array, one host per line
    #[arg(long)]
    json: bool,
    /// Print the hashes of passwords, not digests of them
    #[arg(long)]
    secrets: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let catalog = sealer.catalog();
    let mut listing = Listing::new(args.json);
    let mut left = args.limit.unwrap_or(usize::MAX);
    let all = HostFilter::default();
    let mut after = args.after.clone();
    while left > 0 {
        let listed = catalog.list_hosts(&all, after.as_ref(), left.min(PAGE));
        let page = listed.await?;
        left -= page.hosts.len();
        for record in &page.hosts {
            let secrets = args.secrets;
            listing.push(
                || View::new(record, secrets),
                || view::line(record, secrets),
            )?;
        }
        let Some(next) = page.next else { break };
        after = Some(next);
    }
    listing.end()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Names come in the order of their bytes. --json gives one array with one host
per line, written as it is read, so that a list of any length is a stream.

Examples:
  sekisho host list
  sekisho host list --after shop.example --limit 100
  sekisho host list --json | jq -r '.[] | select(.disabled) | .name'";
