//! Scripts of two tenants: PHP in a pool of each, and CGI programs by an fcgiwrap of each,
//! behind the same server. No answer may be another tenant's, or another client's.

mod apart;
mod cgi;
mod client;
mod counts;
mod hang;
mod load;
mod setting;
mod visits;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use self::counts::Counts;
use self::setting::Setting;
use crate::sites::raise_open_files;

/// Which server, and how much.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Fewer clients, requests and hosts
    #[arg(long)]
    quick: bool,
}

/// Sizes of a run.
#[derive(Clone, Copy, Debug)]
struct Scale {
    /// Clients of each tenant over each protocol.
    clients: usize,
    /// Requests of each client before the restart of php-fpm, and as many after it.
    requests: usize,
    /// Times that each tenant gets large bodies and streams over each protocol.
    transfers: usize,
    /// Hosts of other tenants, beside a pool that hangs.
    others: usize,
    /// Requests of each tenant to CGI programs over each protocol.
    programs: usize,
}

impl Scale {
    const WHOLE: Self = Self {
        clients: 16,
        requests: 400,
        transfers: 5,
        others: 1000,
        programs: 500,
    };
    const QUICK: Self = Self {
        clients: 4,
        requests: 28,
        transfers: 1,
        others: 100,
        programs: 20,
    };
}

pub(crate) fn run(options: &Options) -> Result<()> {
    raise_open_files()?;
    crate::block_on(prove(options))
}

async fn prove(options: &Options) -> Result<()> {
    let scale = match options.quick {
        true => Scale::QUICK,
        false => Scale::WHOLE,
    };
    let setting = Setting::new(&options.sekisho, scale.others).await?;
    let counts = Counts::default();
    if !setting.is_root {
        println!(
            "without root, both tenants' scripts run as the same user: left out is whether one \
             reads the other's files, and whose number a program prints"
        );
    }
    load::run(&setting, scale, &counts).await?;
    apart::run(&setting, &counts).await?;
    cgi::run(&setting, scale.programs, &counts).await?;
    hang::run(&setting, scale.others, &counts).await?;
    setting.end().await?;
    println!("{}", apart::check(&options.sekisho).await?);
    println!("{counts}");
    ensure!(counts.is_right(), "answers were not the ones asked for");
    Ok(())
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Needs Debian's packages php-fpm, php-sqlite3 and fcgiwrap, whose services are not used. As
root, each tenant's scripts run as a user of their own.

Examples:
  sekisho-system-tests php-cgi
  sekisho-system-tests php-cgi --quick --sekisho target/debug/sekisho
";
