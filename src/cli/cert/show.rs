//! `sekisho cert show`

use std::io::Write;

use sekisho_certs::{Catalog, Clock, SealedBytes, Sealer, StoredCredential};

use crate::cli::cert::Leaf;
use crate::cli::cert::view::{self, HOSTS_SHOWN, View};
use crate::cli::lineage;
use crate::cli::named::Named;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, Output};

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

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let catalog = sealer.catalog().as_ref();
    let credentials = args.name.credentials(catalog).await?;
    if args.json {
        return json(catalog, &args.name, &credentials).await;
    }
    let mut output = Output::new();
    for (number, credential) in credentials.iter().enumerate() {
        if number > 0 {
            writeln!(output)?;
        }
        let hosts = catalog.hosts_of(credential.id, None, HOSTS_SHOWN + 1);
        let hosts = hosts.await?;
        view::write(&mut output, credential, &Leaf::of(credential)?, &hosts)?;
        if let Some(lineage) = lineage::of_credential(catalog, credential.id).await? {
            let (now, own) = (Clock::System.now(), std::slice::from_ref(credential));
            lineage::write(&mut output, &lineage, own, now, view::COLUMN)?;
        }
    }
    output.flush()?;
    Ok(Ended::Done)
}

/// Writes an object for an id, an array for a host.
async fn json(
    catalog: &dyn Catalog,
    name: &Named,
    credentials: &[StoredCredential<SealedBytes>],
) -> Result<Ended> {
    let mut shown = Vec::with_capacity(credentials.len());
    for credential in credentials {
        let lineage = lineage::of_credential(catalog, credential.id).await?;
        shown.push((credential, Leaf::of(credential)?, lineage));
    }
    let now = Clock::System.now();
    let mut views = shown.iter().map(|(credential, leaf, lineage)| {
        let (own, lineage) = (std::slice::from_ref(*credential), lineage.as_ref());
        let mut view = View::new(credential, leaf);
        view.lineage = lineage.map(|one| lineage::View::new(one, own, now));
        view
    });
    match name {
        Named::Credential(_) => Output::new().object(&views.next())?,
        Named::Host(_) => {
            let mut listing = Listing::new(true);
            for view in views {
                listing.push(|| view, String::new)?;
            }
            listing.end()?;
        }
    }
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Shows the lineage of a certificate, too: when it is renewed, and why the last
attempt failed. A certificate without one is not renewed.

Examples:
  sekisho cert show shop.example
  sekisho cert show cert:0123456789abcdef --json";
