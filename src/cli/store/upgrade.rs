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
Example:
  sekisho store upgrade";
