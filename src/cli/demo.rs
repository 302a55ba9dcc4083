//! `sekisho demo`: everything from nothing, as a check that it works here.

mod authority;
mod folder;
mod verify;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::Instant;

use anyhow::ensure;
use sekisho_certs::HostPattern;
use sekisho_certs::credential::Dates;

use crate::cli::cert::import::{self, Checked, Names, Refusal, Report, Roots, Rules, Target};
use crate::config::Config;
use crate::handover::Taken;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;
use crate::wiring::serving::Serving;
use authority::Authority;
use folder::{Folder, host};

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// How many hosts to make
    #[arg(long, value_name = "N", default_value = "10", value_parser = clap::value_parser!(u32).range(1..=MAX_HOSTS))]
    hosts: u32,
    /// Where everything goes; what an earlier demo left there is used again
    #[arg(long, value_name = "DIR", default_value = "demo")]
    dir: PathBuf,
}

pub(super) fn run(args: &Args) -> Result<Ended> {
    let folder = Folder::open(&args.dir, args.hosts)?;
    folder.write_config()?;
    folder.write_pages()?;
    let authority = Authority::of(&folder.path)?;
    let (hosts, shown) = (args.hosts, folder.path.display());
    println!("made a CA, {hosts} hosts and a configuration in {shown}");
    let config = Config::load(Some(&folder.config()))?;
    println!("store: {}", fill(&config, &authority, hosts)?);

    let serving = Serving::build(&config, Instant::now(), Taken::default())?;
    let (https, ms) = (serving.https(), serving.start_up.as_secs_f64() * 1000.0);
    println!("serving on https://{https}, {ms:.1} ms after it began");
    for line in serve_and_verify(serving, &folder.path)? {
        println!("{line}");
    }
    let file = folder.config();
    let file = file.display();
    println!("serve it again with: sekisho serve --config {file}");
    Ok(Ended::Done)
}

/// Serves while the demo's client verifies the server.
fn serve_and_verify(serving: Serving, folder: &Path) -> Result<[String; 2]> {
    let (https, shutdown) = (serving.https(), serving.shutdown.clone());
    thread::scope(|scope| {
        let server = scope.spawn(|| serving.run());
        let verified = verify::verify(https, folder);
        // The client has disconnected: there is nothing to drain.
        shutdown.end();
        server.join().expect("the server does not panic")?;
        verified
    })
}

/// Stores one certificate per host, through the import pipeline.
fn fill(config: &Config, authority: &Authority, hosts: u32) -> Result<String> {
    let runtime = open::runtime()?;
    let sealer = runtime.block_on(open::create(config))?;
    let report = Report::new(|| Some(u64::from(hosts)));
    let issue = |number| issue(authority, number);
    // A certificate of an earlier demo, which is valid, too, is replaced.
    let (target, rules) = (Target::new(Some(&sealer), false), Rules::default());
    let report = import::import(&runtime, target, 1..=hosts, issue, report, rules)?;
    let (line, ended) = report.end()?;
    let line = line.unwrap_or_default();
    ensure!(ended == Ended::Done, "{line}");
    Ok(line)
}

fn issue(authority: &Authority, number: u32) -> Result<Checked, Refusal> {
    let host = host(number);
    let refuse = |reason: String| Refusal::new(&host, "a host can't be made", reason);
    let issued = authority.issue(&host);
    let (chain, key) = issued.map_err(|error| refuse(error.to_string()))?;
    let named = HostPattern::parse(&host).map_err(|error| refuse(error.to_string()))?;
    let at = Path::new(&host);
    let (chain, key) = ((at, chain.as_bytes()), (at, key.as_bytes()));
    let names = Names::Exactly(vec![named]);
    import::check_pair(chain, key, names, Dates::Any, &Roots::none())
}

/// Most hosts, for the disk: each takes about 2 KB.
const MAX_HOSTS: i64 = 10_000_000;

const EXAMPLES: &str = "\
The hosts are called host-1.example and so on. The folder gets the CA (ca.pem
is what clients must trust), the store, pages and the configuration; nothing
outside of it is touched.

Examples:
  sekisho demo
  sekisho demo --hosts 1000 --dir /tmp/demo
  sekisho serve --config demo/sekisho.toml";
