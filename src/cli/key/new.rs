//! `sekisho key new`

use std::io::Write;

use sekisho_certs::seal::{KeyRing, KeySource};

use super::KeyId;
use crate::terminal::failure::{Ended, Result, Usage};
use crate::terminal::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Print the text with the new key in it, where the keys come from env: or
    /// command: and can't be written here
    #[arg(long)]
    print: bool,
}

pub(super) fn run(source: &KeySource, args: &Args) -> Result<Ended> {
    match (source, args.print) {
        (KeySource::File(path), false) => {
            let id = KeyId(KeyRing::extend_file(path)?);
            println!(
                "added the key {id} to {}; it opens, and does not seal yet",
                path.display()
            );
            println!(
                "next: back the file up, copy it to every server, and run 'sekisho key rotate'"
            );
        }
        (KeySource::File(_), true) => {
            let text = format!("{source} is written by this command; leave out --print");
            return Err(Usage(text).into());
        }
        (_, false) => {
            let text = format!(
                "[keys] master is {source}, which can't be written here; --print prints the \
                 text to put there, with all keys, to standard output"
            );
            return Err(Usage(text).into());
        }
        (_, true) => {
            let (text, id) = source.extended()?;
            let mut output = Output::new();
            output.write_all(text.as_bytes())?;
            output.flush()?;
            let id = KeyId(id);
            eprintln!(
                "the new key {id} is the last line; put the text where {source} reads it on \
                 every server (restart servers that read a variable), back it up, and run \
                 'sekisho key rotate'"
            );
        }
    }
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
The key file is replaced whole; its owner and mode stay. Servers that run read
it again when they meet the new key, so it must be with all of them before the
rotation.

Examples:
  sekisho key new
  sekisho key new --print | vault-put sekisho/master";
