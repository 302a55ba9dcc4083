//! Hand-overs under load: ten reloads and three upgrades, one of which fails, while clients of
//! each kind ask at a constant rate. None of these clients may fail.

mod admin;
mod content;
mod cut;
mod director;
mod field;
mod generations;
mod http1;
mod http2;
mod kept;
mod load;
mod plan;
mod program;
mod report;
mod setting;
mod sockets;
mod transfers;
mod upstream;

#[cfg(test)]
mod tests;

use std::path::PathBuf;

use anyhow::{Context, Result, bail};
use clap::{Args, ValueEnum};
use tokio::runtime;
use tokio::task::LocalSet;

use self::director::Director;
use self::load::{Load, Rates};
use self::setting::Setting;
use crate::chaos::interrupted;
use crate::sites::raise_open_files;

/// Which server, and what happens to it.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Judge an unoptimized server: lower rates, shorter pauses, and the program of the
    /// failing upgrade ends at once instead of hanging for 30 s
    #[arg(long)]
    quick: bool,

    /// What happens to the server
    #[arg(long, value_enum, value_name = "WHAT", default_value = "handovers")]
    events: Events,

    /// Only the first N of the thirteen hand-overs
    #[arg(long, value_name = "N", default_value_t = 13, value_parser = clap::value_parser!(u32).range(1..=13))]
    most: u32,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Events {
    /// Reloads and upgrades
    Handovers,
    /// SIGTERM and a new start instead, which must fail clients: a test of this test
    Restarts,
    /// Nothing: ten seconds of load
    None,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    raise_open_files()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            ended = prove(options) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

async fn prove(options: &Options) -> Result<()> {
    let setting = Setting::new(&options.sekisho).await?;
    let field = setting.field().await?;
    let rates = if options.quick {
        Rates::QUICK
    } else {
        Rates::FULL
    };
    let load = Load::start(&field, &setting, &rates).await?;
    let director = Director {
        field: field.clone(),
        setting: &setting,
        quick: options.quick,
    };
    let directed = match options.events {
        Events::Handovers => director.hand_over(options.most as usize).await,
        Events::Restarts => director.restart().await,
        Events::None => director.rest().await,
    };
    load.stop().await?;
    let ended = setting.end().await;
    // The load of before is over: a few connections alone are cut.
    let cut = match (&directed, options.events) {
        (Ok(()), Events::Handovers) => cut::run(&field, &setting).await,
        _ => Ok(()),
    };
    for (what, result) in [("events", &directed), ("end", &ended), ("cut", &cut)] {
        if let Err(error) = result {
            field.broken(&format!("{what}: {error:#}"));
        }
    }
    let failed = report::print(&field);
    if failed > 0 {
        println!("warnings and hand-overs in the log:\n{}", setting.log());
    }
    println!("{}", report::last_line(&field));
    report::table(&field).write(options.json.as_deref())?;
    if failed > 0 {
        bail!("clients noticed the hand-overs");
    }
    Ok(())
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Clients, server and upstream are on this machine; it takes two to three minutes. The last
line says how many of all operations of the clients failed.

Examples:
  sekisho-system-tests upgrade
  sekisho-system-tests upgrade --quick --sekisho target/debug/sekisho
  sekisho-system-tests upgrade --quick --events restarts --sekisho target/debug/sekisho
";
