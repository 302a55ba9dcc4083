//! `sekisho cert show`

use std::io::Write;

use sekisho_certs::{Catalog, CredentialId};

use crate::cli::cert::Leaf;
use crate::cli::cert::view::{self, Hosts, View};
use crate::cli::failure::{Ended, Result};
use crate::cli::named::Named;
use crate::cli::output::{Listing, Output};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// A host, or a credential's id
    #[arg(value_name = "NAME")]
    name: Named,
    /// As a JSON object; for a host an array of them, the preferred one first
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(catalog: &dyn Catalog, args: &Args) -> Result<Ended> {
    let credentials = args.name.credentials(catalog).await?;
    let mut output = Output::new();
    if args.json && matches!(args.name, Named::Credential(_)) {
        output.object(&View::new(&credentials[0], &Leaf::of(&credentials[0])?))?;
        return Ok(Ended::Done);
    }
    if args.json {
        let mut listing = Listing::new(&mut output, true);
        for credential in &credentials {
            let leaf = Leaf::of(credential)?;
            listing.push(|| View::new(credential, &leaf), String::new)?;
        }
        listing.end()?;
        return Ok(Ended::Done);
    }
    for (number, credential) in credentials.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        let hosts = hosts(catalog, credential.id).await?;
        view::write(&mut output, credential, &Leaf::of(credential)?, &hosts)?;
    }
    output.flush()?;
    Ok(Ended::Done)
}

async fn hosts(catalog: &dyn Catalog, id: CredentialId) -> Result<Hosts> {
    let mut first = catalog.hosts_of(id, None, HOSTS_SHOWN + 1).await?;
    let more = first.len() > HOSTS_SHOWN;
    first.truncate(HOSTS_SHOWN);
    Ok(Hosts { first, more })
}

/// Hosts that are shown: one screen.
const HOSTS_SHOWN: usize = 20;

const EXAMPLES: &str = "\
Examples:
  sekisho cert show shop.example
  sekisho cert show cert:0123456789abcdef --json";
