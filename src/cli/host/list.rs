//! `sekisho host list`

use sekisho_certs::{Clock, HostFilter, HostPattern, Sealer};

use crate::cli::filter::{FilterArgs, Hosts};
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
    let catalog = sealer.catalog().as_ref();
    let listing = Listing::of_rows(args.json, &view::COLUMNS);
    let mut listing = listing.only_count(args.filter.count);
    let filter = HostFilter {
        suspended: args.suspended,
        ..args.filter.hosts()
    };
    let mut hosts = match &args.after {
        Some(after) => Hosts::after(catalog, filter, Some(after.clone())),
        None => Hosts::in_state(catalog, filter, (&args.filter, Clock::System.now())),
    };
    let mut left = args.limit.unwrap_or(usize::MAX);
    while left > 0 {
        let Some(page) = hosts.next(left.min(PAGE)).await? else {
            break;
        };
        for record in page.iter().take(left) {
            left -= 1;
            if listing.tally() {
                continue;
            }
            let secrets = args.secrets;
            listing.row(
                || View::new(record, secrets),
                || view::cells(record, secrets),
            )?;
        }
    }
    listing.end()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Names come in the order of their bytes, with --under in that of the domains, with
--expiring and --expired in the order in which certificates end. A terminal gets a
table, a pipe tabs between the columns. --json gives one array with one host per
line, written as it is read, so that a list of any length is a stream. A list that
needs an index which a store of an older version lacks says so.

Examples:
  sekisho host list
  sekisho host list --after shop.example --limit 100
  sekisho host list --tenant anna --expiring 30d
  sekisho host list --under shop.example --count
  sekisho host list --json | jq -r '.[] | select(.disabled) | .name'";
