//! `sekisho host show`

use std::io::Write;

use sekisho_certs::{Clock, HostPattern, Sealer};

use crate::cli::host::view::{self, View};
use crate::cli::{lineage, named};
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host, as it was stored
    name: HostPattern,
    /// As a JSON object
    #[arg(long)]
    json: bool,
    /// Print the hashes of passwords, not digests of them
    #[arg(long)]
    secrets: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let catalog = sealer.catalog().as_ref();
    let record = named::host(catalog, &args.name).await?;
    let lineages = lineage::of_host(catalog, &record).await?;
    let credentials = named::credentials_of(catalog, &record).await?;
    let (now, mut output) = (Clock::System.now(), Output::new());
    if args.json {
        let lineages = lineages.iter();
        let lineages = lineages.map(|one| lineage::View::new(one, &credentials, now));
        let mut view = View::new(&record, args.secrets);
        view.lineages = Some(lineages.collect());
        output.object(&view)?;
    } else {
        view::write(&mut output, (&record, args.secrets), &credentials)?;
        for one in &lineages {
            lineage::write(&mut output, one, &credentials, now, view::COLUMN)?;
        }
    }
    output.flush()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Shows the lineages of its certificates, too: whether they are renewed, when, and
why the last attempt failed.

A digest sha256:… stands for the hash of a password; 'host set --site' takes it for
the hash that the host has.

Examples:
  sekisho host show shop.example
  sekisho host show '*.shop.example' --json";
