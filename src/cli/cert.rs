//! `sekisho cert`: credentials, each a certificate chain with its key.

mod export;
pub(super) mod import;
mod issue;
mod leaf;
mod list;
mod pem;
mod remove;
mod renew;
mod revoke;
mod show;
mod view;

use std::path::Path;

use clap::Subcommand;
use sekisho_certs::KeyType;

use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

pub(super) use issue::order_one;
pub(super) use leaf::{Leaf, check_covers, joined};

/// Commands on credentials.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Store certificates with their keys, and point hosts at them
    Import(Box<import::Args>),
    /// Order certificates for hosts now
    Issue(Box<issue::Args>),
    /// Renew certificates now
    Renew(renew::Args),
    /// Revoke a certificate at its CA
    Revoke(revoke::Args),
    /// Show the certificates of a host, or one by its id
    Show(show::Args),
    /// List credentials, all or those that meet conditions
    ///
    /// Ids grow with time: what was stored first is listed first, with --expiring and --expired what
    /// ends first, with --tenant and --under by the hosts. --failing and --no-cert list by name what
    /// could not be issued or renewed, and what has no certificate yet: state, next attempt, and the
    /// last error with its time. A terminal gets a table, a pipe tabs between the columns.
    List(list::Args),
    /// Drop a host's references; what no host refers to is deleted
    Remove(remove::Args),
    /// Print a chain as PEM, with its private key only if asked for
    Export(export::Args),
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    let config = configuration::load(config)?;
    let runtime = open::runtime()?;
    let existing = || runtime.block_on(open::sealed(&config));
    match command {
        Command::Import(args) => import::run(&runtime, &config, &args),
        Command::Issue(args) => runtime.block_on(issue::run(&config, &args)),
        Command::Renew(args) => runtime.block_on(renew::run(&config, &args)),
        Command::Revoke(args) => runtime.block_on(revoke::run(&config, &args)),
        Command::Show(args) => runtime.block_on(show::run(&existing()?, &args)),
        Command::List(args) => runtime.block_on(list::run(&existing()?, &args)),
        Command::Remove(args) => runtime.block_on(remove::run(&existing()?, &args)),
        Command::Export(args) => runtime.block_on(export::run(&existing()?, &args)),
    }
}

/// Parses a key type of the command line.
fn key_type(text: &str) -> Result<KeyType, String> {
    KeyType::parse(text).ok_or_else(|| {
        let known = KeyType::ALL.map(KeyType::as_str).join(", ");
        format!("there are {known}")
    })
}

const EXAMPLES: &str = "\
NAME is a host as it was stored, or a credential's id (cert: and 16 digits).

Examples:
  sekisho cert import --chain shop.crt --key shop.key
  sekisho cert issue shop.example
  sekisho cert show shop.example
  sekisho cert export shop.example > shop.crt
  sekisho cert remove shop.example --type rsa";
