//! `sekisho keep-pid`: what a server's first process becomes after a hand-over.

use crate::handover::keeper;
use crate::terminal::failure::{Ended, Result};

#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Process that serves
    newest: u32,
}

pub(super) fn run(args: &Args) -> Result<Ended> {
    Ok(Ended::With(keeper::keep(args.newest)?))
}
