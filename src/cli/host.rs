//! `sekisho host`: the records of hosts.

mod client_ca;
mod list;
mod passwords;
mod remove;
mod running;
mod set;
mod show;
mod site;
pub(super) mod suspend;
mod view;

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use clap::Subcommand;
use sekisho_certs::HostPattern;

use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

pub(super) use site::of_file as site_of_file;

/// Commands on hosts.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Create a host, or change the given fields of one
    Set(Box<set::Args>),
    /// Show one host
    Show(show::Args),
    /// List hosts, all or those that meet conditions
    List(list::Args),
    /// Answer requests to a host with a page, and keep its site
    ///
    /// Requests get the page, also on connections that are open; the site stays in the record, its
    /// certificate is served and renewed. Nothing that a tenant may write, and no 'host set', lifts
    /// it. Servers of an older version serve the site on: upgrade them first.
    Suspend(suspend::Args),
    /// Answer requests to a host by its site again
    #[command(after_help = suspend::RESUME)]
    Resume {
        /// The host, as it was stored
        name: HostPattern,
    },
    /// Remove a host; a certificate that no host refers to goes with it
    Remove(remove::Args),
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    let runtime = open::runtime()?;
    let existing = || runtime.block_on(open::existing(config));
    match command {
        Command::Set(args) => runtime.block_on(set::run(config, &args)),
        Command::Show(args) => runtime.block_on(show::run(&existing()?, &args)),
        Command::List(args) => runtime.block_on(list::run(&existing()?, &args)),
        Command::Suspend(suspend::Args { name, page }) => {
            runtime.block_on(suspend::run(&existing()?, &name, Some(&page)))
        }
        Command::Resume { name } => runtime.block_on(suspend::run(&existing()?, &name, None)),
        Command::Remove(args) => runtime.block_on(remove::run(&existing()?, &args)),
    }
}

/// Reads a file, or standard input for `-`: at most so many bytes, by which a caller can
/// tell a file that is too long.
fn read_input(path: &Path, most: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if path == Path::new("-") {
        io::stdin().lock().take(most).read_to_end(&mut bytes)?;
    } else {
        File::open(path)?.take(most).read_to_end(&mut bytes)?;
    }
    Ok(bytes)
}

const EXAMPLES: &str = "\
Examples:
  sekisho host set shop.example --tenant anna --root /srv/www/shop
  sekisho host show shop.example --json
  sekisho host list --under shop.example
  sekisho host suspend shop.example
  sekisho host remove shop.example";
