//! `sekisho key`: the master keys that private keys are sealed under.

mod list;
mod new;
mod remove;
mod rotate;
mod tally;

use std::fmt;
use std::path::Path;
use std::str::FromStr;

use clap::Subcommand;

use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

/// Commands on master keys.
#[derive(Debug, Subcommand)]
#[command(after_help = EXAMPLES)]
pub(crate) enum Command {
    /// Add a new key that only opens, for now
    New(new::Args),
    /// Make the newest key the one that seals, and seal everything again
    Rotate(rotate::Args),
    /// List the keys, and how much is sealed under each
    List(list::Args),
    /// Take out a key that nothing is sealed under
    Remove(remove::Args),
}

pub(super) fn run(config: Option<&Path>, command: Command) -> Result<Ended> {
    let config = configuration::load(config)?;
    let runtime = open::runtime()?;
    match command {
        Command::New(args) => new::run(open::source(&config)?, &args),
        Command::Rotate(args) => runtime.block_on(rotate::run(&config, &args)),
        Command::List(args) => runtime.block_on(list::run(&config, &args)),
        Command::Remove(args) => runtime.block_on(remove::run(&config, &args)),
    }
}

/// Shows a key's id as eight hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KeyId(u32);

impl FromStr for KeyId {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let is_id = text.len() == 8 && text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let id = u32::from_str_radix(text, 16).ok().filter(|_| is_id);
        // The text may be the key itself: the error must not repeat it.
        id.map(Self).ok_or_else(|| {
            "a key's id has eight hexadecimal digits; 'sekisho key list' shows them".to_owned()
        })
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}", self.0)
    }
}

const EXAMPLES: &str = "\
A key has an id of eight digits, which says nothing of the key. All keys of
[keys] master open; the store says which one seals.

Examples:
  sekisho key new        then copy the key file to every server, and
  sekisho key rotate     while they serve
  sekisho key list
  sekisho key remove 1f3a90c2";
