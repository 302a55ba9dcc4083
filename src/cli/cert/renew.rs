//! `sekisho cert renew`

use std::str::FromStr;

use anyhow::anyhow;
use sekisho_certs::{Lineage, LineageName, SealedBytes, Sealer};

use crate::cli::issuance::Issuance;
use crate::cli::lineage;
use crate::cli::named::Named;
use crate::config::Config;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Hosts, credentials' ids, or lineages
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let issuance = Issuance::of(config)?;
    let sealer = open::sealed(config).await?;
    let mut names: Vec<LineageName> = Vec::new();
    for name in &args.names {
        for one in called(&sealer, name).await? {
            if !names.contains(&one.name) {
                names.push(one.name);
            }
        }
    }
    issuance.ordering(&sealer)?.order(names).await
}

/// Returns the lineage of this name, and those of a host or a credential that is
/// called so.
async fn called(sealer: &Sealer, name: &str) -> Result<Vec<Lineage<SealedBytes>>> {
    let lineage = LineageName::parse(name).map_err(Usage)?;
    let found = sealer.catalog().lineages(&[lineage]).await?;
    let of_named = match Named::from_str(name) {
        Ok(named) if found.is_empty() => return of(sealer, &named).await,
        Ok(named) => lineage::of(sealer.catalog().as_ref(), &named).await?,
        Err(why) if found.is_empty() => return Err(Usage(why).into()),
        Err(_) => Vec::new(),
    };
    Ok(found.into_iter().chain(of_named).collect())
}

/// Returns the lineages of a host or a credential. Fails if there is none.
pub(super) async fn of(sealer: &Sealer, named: &Named) -> Result<Vec<Lineage<SealedBytes>>> {
    let found = lineage::of(sealer.catalog().as_ref(), named).await?;
    if found.is_empty() {
        return Err(anyhow!(
            "{named} is not renewed here; 'sekisho cert issue' orders a certificate for a host, \
             'sekisho cert import --renew' renews an imported one"
        ));
    }
    Ok(found)
}

const EXAMPLES: &str = "\
Orders new certificates now, due or not, also where many failures have left one
try a day, and waits for them. What failed is listed at the end (exit code 1).

Examples:
  sekisho cert renew shop.example
  sekisho cert list --failing --json | jq -r '.[].name' | xargs -r sekisho cert renew";
