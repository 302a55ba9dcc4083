//! `sekisho tenant`

mod list;
mod suspend;

use std::path::Path;

use clap::Subcommand;
use sekisho_certs::Tenant;

use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

/// Commands on tenants.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// List the tenants that have hosts
    ///
    /// They come in the order of the bytes of their names; '-' is the operator, whose name is empty.
    List(list::Args),
    /// Answer requests to all hosts of a tenant with a page, and keep their sites
    ///
    /// Does to each host of the tenant what 'sekisho host suspend' does to one. Hosts that are made
    /// later are not suspended. If it is stopped or killed, run it again.
    Suspend(suspend::Args),
    /// Answer requests to the hosts of a tenant by their sites again
    ///
    /// Lifts suspensions of single hosts of the tenant, too.
    #[command(after_help = suspend::RESUME)]
    Resume {
        /// The tenant; '' is the operator
        #[arg(value_name = "T", value_parser = Tenant::parse)]
        tenant: Tenant,
    },
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    let runtime = open::runtime()?;
    let existing = || runtime.block_on(open::existing(config));
    match command {
        Command::List(args) => runtime.block_on(list::run(&existing()?, &args)),
        Command::Suspend(args) => runtime.block_on(suspend::suspend(&existing()?, &args)),
        Command::Resume { tenant } => runtime.block_on(suspend::resume(&existing()?, &tenant)),
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho tenant list
  sekisho host list --tenant anna --count
  sekisho tenant suspend anna
  sekisho tenant resume anna";
