//! `sekisho tenant list`

use sekisho_certs::{Sealer, Tenant};
use serde_json::json;

use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::{Listing, PAGE};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// As a JSON array, one tenant per line
    #[arg(long)]
    json: bool,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let catalog = sealer.catalog();
    let mut listing = Listing::of_rows(args.json, &["TENANT"], false);
    let mut after = None;
    loop {
        let page = catalog.tenants(after.as_ref(), PAGE).await?;
        for tenant in page.iter().map(Tenant::as_str) {
            let shown = if tenant.is_empty() { "-" } else { tenant };
            listing.row(|| json!({ "name": tenant }), || vec![shown.into()])?;
        }
        let Some(last) = page.last() else { break };
        after = Some(last.clone());
    }
    listing.end()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Examples:
  sekisho tenant list
  sekisho tenant list --json | jq -r '.[].name'";
