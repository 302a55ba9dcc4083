//! `sekisho serve`

use std::path::Path;
use std::time::Instant;

use anyhow::Context;

use crate::config::{Config, Exposure};
use crate::handover::{Taken, keeper};
use crate::process::{SignalThread, keep_out_of_programs};
use crate::terminal::failure::{Ended, Result};
use crate::wiring::log::{self, Flush, Format};
use crate::wiring::serving::Serving;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How log lines are written to standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log: Format,
}

pub(super) fn run(config: Option<&Path>, args: &Args, begun: Instant) -> Result<Ended> {
    keep_out_of_programs().context("the descriptors of this process can't be listed")?;
    // Before any other thread, which would receive signals too.
    let signals = SignalThread::start().context("no thread for signals")?;
    let taken = Taken::receive()?;
    let refusal = taken.refusal()?;
    let served = build(config, args, begun, taken);
    let (serving, config, flush) = match served {
        Ok(served) => served,
        Err(error) => {
            if let Some(refusal) = refusal {
                refusal.send(&error);
            }
            return Err(error);
        }
    };
    drop(refusal);
    let left = serving.run_until_signalled(&config, signals)?;
    drop(flush);
    Ok(match left.keeper {
        Some((link, newest)) => Ended::With(keeper::become_keeper(link, newest)),
        None => Ended::Done,
    })
}

/// Reads the configuration and builds its server, with what the process before gave.
fn build(
    config: Option<&Path>,
    args: &Args,
    begun: Instant,
    taken: Taken,
) -> Result<(Serving, Config, Flush)> {
    let flush = log::start(args.log)?;
    let config = Config::load(config)?;
    for Exposure { problem, hint } in config.exposures()? {
        let config = config.file.display();
        tracing::warn!(%config, problem, "the configuration is exposed: {hint}");
    }
    let serving = Serving::build(&config, begun, taken)?;
    Ok((serving, config, flush))
}

const EXAMPLES: &str = "\
Ends on SIGTERM, SIGINT or SIGQUIT: requests in flight are answered first; a
second signal ends at once. SIGHUP begins anew with the configuration as it is
now, SIGUSR2 with the program as it is on the disk, both without a lost
connection; SIGUSR1 opens the access log again. SEKISHO_LOG filters the log.

Examples:
  sekisho serve --config /etc/sekisho/sekisho.toml
  SEKISHO_LOG=warn sekisho serve --log json";
