//! `sekisho acme`: what is kept at the CAs.

mod account;

use std::path::Path;

use clap::Subcommand;

use crate::terminal::failure::{Ended, Result};

/// Commands on the CAs of `[acme]`.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Show, import, rotate and deactivate the accounts at the CAs
    ///
    /// All servers of a store share one account per CA. The first order makes it; its private key
    /// lies sealed in the store.
    #[command(subcommand)]
    Account(account::Command),
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    match command {
        Command::Account(command) => account::run(config, &command),
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho acme account show
  sekisho acme account rotate --ca letsencrypt";
