//! `sekisho completions`: what a shell offers on Tab.

use std::io::Write;

use clap::CommandFactory;
use clap_complete::Shell;

use crate::cli::Cli;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::output::Output;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args) -> Result<Ended> {
    // clap_complete panics if its writer fails: it writes to memory first.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "sekisho", &mut script);
    let mut output = Output::new();
    output.write_all(&script)?;
    output.flush()?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Examples:
  sekisho completions bash > /etc/bash_completion.d/sekisho
  sekisho completions fish > ~/.config/fish/completions/sekisho.fish";
