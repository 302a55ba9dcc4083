//! `sekisho host show`

use std::io::Write;

use sekisho_certs::{Catalog, HostPattern};

use crate::cli::failure::{Ended, Result};
use crate::cli::host::view::{self, View};
use crate::cli::named;
use crate::cli::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host, as it was stored
    name: HostPattern,
    /// As a JSON object
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(catalog: &dyn Catalog, args: &Args) -> Result<Ended> {
    let record = named::host(catalog, &args.name).await?;
    let mut output = Output::new();
    if args.json {
        output.object(&View::new(&record))?;
    } else {
        let credentials = named::credentials_of(catalog, &record).await?;
        view::write(&mut output, &record, &credentials)?;
    }
    output.flush()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Examples:
  sekisho host show shop.example
  sekisho host show '*.shop.example' --json";
