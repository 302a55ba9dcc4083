//! `sekisho host remove`

use anyhow::bail;
use sekisho_certs::{HostPattern, Sealer};

use crate::cli::edit::{Edit, edit};
use crate::terminal::failure::{Ended, Result};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The host, as it was stored
    name: HostPattern,
}

pub(super) async fn run(sealer: &Sealer, args: &Args) -> Result<Ended> {
    let name = &args.name;
    edit(sealer, name, async |stored| match stored {
        Some(_) => Ok(Edit::Remove),
        None => bail!("there is no host {name}; 'sekisho host list' shows which there are"),
    })
    .await?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Its certificates are deleted unless other hosts refer to them.

Examples:
  sekisho host remove shop.example
  sekisho host remove '*.shop.example'";
