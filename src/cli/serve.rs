//! `sekisho serve`

use std::path::Path;
use std::time::Instant;

use crate::config::{Config, Exposure};
use crate::terminal::failure::{Ended, Result};
use crate::wiring::log::{self, Format};
use crate::wiring::serving::Serving;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How log lines are written to standard error
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "text")]
    log: Format,
}

pub(super) fn run(config: Option<&Path>, args: &Args, begun: Instant) -> Result<Ended> {
    let _flush = log::start(args.log)?;
    let config = Config::load(config)?;
    for Exposure { problem, hint } in config.exposures()? {
        let config = config.file.display();
        tracing::warn!(%config, problem, "the configuration is exposed: {hint}");
    }
    Serving::build(&config, begun)?.run_until_signalled(&config)?;
    Ok(Ended::Done)
}

const EXAMPLES: &str = "\
Ends on SIGTERM, SIGINT or SIGQUIT: requests in flight are answered first; a
second signal ends at once. SEKISHO_LOG filters the log.

Examples:
  sekisho serve --config /etc/sekisho/sekisho.toml
  SEKISHO_LOG=warn sekisho serve --log json";
