//! `sekisho cert import`

mod acme_json;
mod archive;
mod args;
mod check;
mod crt_list;
mod deferred;
mod folder;
mod layout;
mod lines;
mod list;
mod pipeline;
mod plan;
mod redis;
mod renew;
mod report;
mod roots;
mod settled;
mod source;
mod sources;
mod tar;
mod write;

use sekisho_certs::Clock;
use tokio::runtime::Runtime;

use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;
use renew::Renewal;
use source::Pair;
use sources::Source;

pub(crate) use args::Args;
pub(crate) use check::{Checked, pair};
pub(crate) use pipeline::import;
pub(crate) use plan::Older;
pub(crate) use report::Report;
pub(crate) use roots::Roots;
pub(crate) use source::{Names, Refusal};

pub(super) fn run(runtime: &Runtime, config: &Config, args: &Args) -> Result<Ended> {
    let sources = args.open()?;
    let sealer = runtime.block_on(open::create(config))?;
    let roots = Roots::load(args.ca.as_deref())?;
    let mut report = Report::new(|| {
        let counts = sources.iter().map(Source::count);
        counts.sum::<Option<u64>>().filter(|count| *count > 0)
    });
    if args.json {
        report.begin_json();
    }
    let now = Clock::System.now();
    let (dates, older) = (args.dates(now), args.older(now));
    let check = |pair: Result<Pair, Refusal>| {
        let pair = pair?;
        check::checked(pair, dates, &roots)
    };
    let renewal = args.renew.then(|| Renewal::of(config, now));
    report.renewed = renewal.map(|_| 0);
    report.named_only = args.is_named_only();
    let pairs = args.pairs(sources)?;
    let report = import(runtime, &sealer, pairs, check, report, older, renewal)?;
    let (line, ended) = report.end()?;
    if let Some(line) = line {
        println!("{line}");
    }
    Ok(ended)
}
