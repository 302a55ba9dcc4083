//! First visits: how long visitors of hosts without a certificate wait, at sekisho and at Caddy
//! on demand. Both order at a real CA (Pebble), which validates without a pause.

mod caddy;
mod case;
mod visits;

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::Args;

use self::caddy::is_installed;
use self::case::{Case, System};
use crate::acme::Setting;
use crate::chaos::interrupted;
use crate::sites::raise_open_files;
use sekisho_bench::table::Table;

/// Which servers, and how many visitors.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// The Caddy binary, from tools/caddy
    #[arg(long, value_name = "FILE", default_value = "target/caddy-2.11.9/caddy")]
    caddy: PathBuf,

    /// Hosts of each case; a tenant has at most 512 first visitors at once
    #[arg(long, value_name = "N", default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..=500))]
    names: u32,

    /// Visitors at once, where there are several; by default a tenant has at most 32 orders
    /// at once
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(2..=30))]
    at_once: u32,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

impl Options {
    fn cases(&self, has_caddy: bool) -> Vec<Case> {
        let several = Some(self.at_once as usize);
        let case = |prefix, system, at_once| Case {
            prefix,
            system,
            names: self.names as usize,
            at_once,
        };
        let mut cases = vec![
            case("alone", System::Sekisho, Some(1)),
            case("crowd", System::Sekisho, several),
            case("pair", System::TwoOfSekisho, None),
        ];
        if has_caddy {
            let caddy = || System::Caddy(self.caddy.clone());
            cases.push(case("caddy-alone", caddy(), Some(1)));
            cases.push(case("caddy-crowd", caddy(), several));
        }
        cases
    }
}

pub(crate) fn run(options: &Options) -> Result<()> {
    raise_open_files()?;
    crate::block_on(async {
        tokio::select! {
            ended = measure(options) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

/// Runs one case after the other. The cases of a peer that is missing are left out.
async fn measure(options: &Options) -> Result<()> {
    let setting = Setting::new(&options.sekisho).await?;
    let has_caddy = is_installed(&options.caddy);
    let cases = options.cases(has_caddy);
    let mut table = Table::new("First visits of hosts without a certificate");
    let mut failed = 0;
    for case in &cases {
        let label = case.label();
        let (figures, error) = match case.run(&setting).await {
            Ok(measured) => {
                println!("{label}: {}", measured.describe());
                (measured.figures(), measured.error())
            }
            Err(error) => (Vec::new(), Some(format!("{error:#}"))),
        };
        if let Some(error) = &error {
            println!("{label}: {error}");
            failed += 1;
        }
        table.add(&label, &figures, error.as_deref());
    }
    if !has_caddy {
        let file = options.caddy.display();
        println!("Caddy on demand: left out, there is no {file}; tools/caddy builds it");
    }
    table.write(options.json.as_deref())?;
    let left_out = if has_caddy { "" } else { ", Caddy left out" };
    println!(
        "first-access: {} cases, {failed} failed{left_out}",
        cases.len()
    );
    ensure!(failed == 0, "{failed} cases failed, see above");
    Ok(())
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Starts Pebble, which `make deps` installs, servers of sekisho on SQLite catalogs of their own,
and Caddy, which `tools/caddy` builds. Caddy begins ten orders in 10 s at most: with 200 hosts,
its two cases take seven minutes. A case fails if a visit does, or if the CA saw more or fewer
orders than there are hosts.

Examples:
  sekisho-system-tests first-access
  sekisho-system-tests first-access --names 8 --at-once 4 --sekisho target/debug/sekisho
";
