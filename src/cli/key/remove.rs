//! `sekisho key remove`

use anyhow::bail;
use sekisho_certs::seal::{KeyRing, KeySource};

use super::KeyId;
use super::list::KEPT;
use super::tally::Tally;
use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The key's id, as 'sekisho key list' shows it
    #[arg(value_name = "ID")]
    id: KeyId,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let (id, source) = (args.id, open::source(config)?);
    let sealer = open::sealed(config).await?;
    if !sealer.ring().has(id.0) {
        bail!("there is no key {id} in {source}; 'sekisho key list' shows which there are");
    }
    if sealer.seals_under().await? == id.0 {
        bail!("the key {id} is the one that seals; 'sekisho key rotate' makes another one seal");
    }
    let under = Tally::of(&sealer).await?.under(id.0);
    if !under.are_none() {
        bail!("sealed under {id}: {under}; 'sekisho key rotate' seals them again");
    }
    let KeySource::File(path) = source else {
        bail!(
            "nothing is sealed under {id}, but {source} can't be written here: take its line out by hand"
        );
    };
    KeyRing::shorten_file(path, id.0)?;
    println!("removed the key {id} from {}", path.display());
    eprintln!("{KEPT}: keep the key with the backups that need it");
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Only a key that nothing in the store is sealed under, and that does not seal, is
taken out of the key file. Servers that run keep it until they are restarted.

Example:
  sekisho key remove 1f3a90c2";
