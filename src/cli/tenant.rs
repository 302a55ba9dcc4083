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
    List(list::Args),
    /// Answer requests to all hosts of a tenant with a page, and keep their sites
    Suspend(suspend::Args),
    /// Answer requests to the hosts of a tenant by their sites again
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
A tenant is a name that host records have ('sekisho host set --tenant'); it needs
no record of its own.

Examples:
  sekisho tenant list
  sekisho host list --tenant anna --count
  sekisho tenant suspend anna
  sekisho tenant resume anna";
