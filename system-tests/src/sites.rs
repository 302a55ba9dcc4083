//! Sites of very many hosts, none of them in a configuration file: each answers with
//! its own, no tenant reaches another's, and WebSocket passes.

mod beside;
mod browser;
mod own;
mod tenants;
mod visits;
mod websocket;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::{Args, ValueEnum};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// Which server, and how many hosts.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Hosts, half with an upstream and half with a root of their own
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(10..=20_000))]
    hosts: u32,

    /// Which parts; all if none is named
    #[arg(long, value_enum, value_name = "PART", value_delimiter = ',')]
    parts: Vec<Part>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq, ValueEnum)]
enum Part {
    /// Every host is asked for
    Visits,
    /// Connections of one tenant ask for hosts of another
    Tenants,
    /// Chromium echoes over WebSocket
    Websocket,
    /// Sites answer as nginx does
    Beside,
}

impl Part {
    const ALL: [Self; 4] = [Self::Visits, Self::Tenants, Self::Websocket, Self::Beside];
}

pub(crate) fn run(options: &Options) -> Result<()> {
    crate::block_on(prove(options))
}

async fn prove(options: &Options) -> Result<()> {
    let parts = match options.parts.is_empty() {
        true => Part::ALL.to_vec(),
        false => options.parts.clone(),
    };
    raise_open_files()?;
    let mut said = Vec::new();
    for part in parts {
        let result = match part {
            Part::Visits => visits::run(&options.sekisho, options.hosts).await,
            Part::Tenants => tenants::run(&options.sekisho).await,
            Part::Websocket => websocket::run(&options.sekisho).await,
            Part::Beside => beside::run(&options.sekisho).await,
        };
        let result = result?;
        println!("{result}");
        said.push(result);
    }
    println!("{}", said.join("; "));
    Ok(())
}

/// Raises the limit of open files to the hard one: each upstream has a listening socket,
/// and a connection of the server.
pub(crate) fn raise_open_files() -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    setrlimit(Resource::Nofile, raised)?;
    ensure!(
        limit.maximum.is_none_or(|most| most >= OPEN_FILES),
        "{OPEN_FILES} files must be open: ulimit -n"
    );
    Ok(())
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Upstreams listen on loopback, each at an address and a port of its own. Chromium needs
Debian's packages chromium, chromium-driver and libnss3-tools.

Examples:
  sekisho-system-tests sites
  sekisho-system-tests sites --hosts 500 --parts visits,tenants
";

const OPEN_FILES: u64 = 20_000;
