//! `sekisho config`: the configuration as a whole.

mod show;

use std::path::Path;

use clap::Subcommand;

use crate::terminal::failure::{Ended, Result};

/// Commands on the configuration.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Show all values that are in effect, with their origin
    Show(show::Args),
}

pub(super) fn run(config: Option<&Path>, command: &Command) -> Result<Ended> {
    match command {
        Command::Show(args) => show::run(config, args),
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho config show
  sekisho config show --json";
