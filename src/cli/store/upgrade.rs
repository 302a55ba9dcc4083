//! `sekisho store upgrade`

use std::path::Path;

use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;

pub(super) fn run(config: Option<&Path>) -> Result<Ended> {
    let config = configuration::load(config)?;
    let url = open::catalog_url(&config)?;
    let runtime = open::runtime()?;
    let mut say = |text: String| println!("{text}");
    runtime.block_on(sekisho_stores::upgrade(url, runtime.handle(), &mut say))?;
    Ok(Ended::Done)
}

pub(super) const EXAMPLES: &str = "\
Completes a store that an older version made: lists that filter need indexes, and
the names of hosts with their labels reversed. Servers read and write meanwhile;
writers to a sqlite: store wait for some seconds an index if there are millions
of hosts. PostgreSQL waits for transactions that began before an index, such as a
dump. If it is stopped or killed, run it again.

Example:
  sekisho store upgrade";
