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
    /// List all credentials
    List(list::Args),
    /// Drop a host's references; what no host refers to is deleted
    Remove(remove::Args),
    /// Print a chain as PEM, with its private key only if asked for
    Export(export::Args),
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    let runtime = open::runtime()?;
    if let Command::Import(args) = command {
        let config = configuration::load(config)?;
        let sealer = runtime.block_on(open::create(&config))?;
        return import::run(&runtime, &sealer, &config, &args);
    }
    runtime.block_on(async {
        match command {
            Command::Import(_) => unreachable!("imports returned above"),
            Command::Issue(args) => issue::run(&configuration::load(config)?, &args).await,
            Command::Renew(args) => renew::run(&configuration::load(config)?, &args).await,
            Command::Revoke(args) => revoke::run(&configuration::load(config)?, &args).await,
            Command::Show(args) => {
                show::run(open::existing(config).await?.catalog().as_ref(), &args).await
            }
            Command::List(args) => {
                list::run(open::existing(config).await?.catalog().as_ref(), &args).await
            }
            Command::Remove(args) => remove::run(&open::existing(config).await?, &args).await,
            Command::Export(args) => export::run(&open::existing(config).await?, &args).await,
        }
    })
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
