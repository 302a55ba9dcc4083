//! `sekisho store`: the store as a whole.

mod backup;
mod copy;
mod upgrade;

use std::path::Path;

use clap::Subcommand;

use crate::terminal::failure::{Ended, Result};

/// Commands on a store.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Copy everything into another store, while this one is served
    Copy(copy::Args),
    /// Write a consistent copy into a file, while the store is served
    Backup(backup::Args),
    /// Build what lists need in a store of an older version, while it is served
    ///
    /// Lists that filter need indexes, and the names of hosts with their labels reversed. Servers
    /// read and write meanwhile; writers to a sqlite: store wait for some seconds an index if there
    /// are millions of hosts. PostgreSQL waits for transactions that began before an index, such as
    /// a dump. If it is stopped or killed, run it again.
    #[command(after_help = upgrade::EXAMPLES)]
    Upgrade,
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    match command {
        Command::Copy(args) => copy::run(config, &args),
        Command::Backup(args) => backup::run(config, &args),
        Command::Upgrade => upgrade::run(config),
    }
}

const EXAMPLES: &str = "\
Examples:
  sekisho store backup /backup/hosts.db
  sekisho store copy sqlite:hosts.db postgres://sekisho@db/certs
  sekisho store upgrade";
