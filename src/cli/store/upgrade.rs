//! `sekisho store upgrade`

use std::path::Path;

use sekisho_stores::UpgradeStep;

use crate::terminal::configuration;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::progress;
use crate::wiring::open;

pub(super) fn run(config: Option<&Path>) -> Result<Ended> {
    let config = configuration::load(config)?;
    let url = open::catalog_url(&config)?;
    let bar = progress::bar(|| None);
    let mut named = 0;
    let mut note = |step| match step {
        UpgradeStep::Named(count) => {
            named = count;
            bar.set_position(count);
        }
        UpgradeStep::Builds(index) => bar.suspend(|| eprintln!("building {index}")),
        UpgradeStep::Built(index, time) => {
            let seconds = time.as_secs_f64();
            bar.suspend(|| println!("{index}: built in {seconds:.1} s"));
        }
    };
    let runtime = open::runtime()?;
    let upgrade = sekisho_stores::upgrade(url, runtime.handle(), &mut note);
    let indexes = runtime.block_on(upgrade)?;
    bar.finish_and_clear();
    if named > 0 {
        println!("{named} hosts named");
    }
    println!("the store is complete: {indexes} indexes");
    Ok(Ended::Done)
}

pub(super) const EXAMPLES: &str = "\
Completes a store that an older version made: lists that filter need indexes, and
the names of hosts with their labels reversed. Servers read and write meanwhile;
writers to a sqlite: store wait for some seconds an index if there are millions
of hosts. PostgreSQL waits for transactions that began before an index, such as a
dump. If it is stopped or killed, run it again. It does nothing to a store that is
complete.

Examples:
  sekisho store upgrade
  sekisho store upgrade --config /etc/sekisho/sekisho.toml";
