//! `sekisho cert import`

mod acme_json;
mod archive;
mod args;
mod check;
mod deferred;
mod folder;
mod layout;
mod list;
mod pipeline;
mod plan;
mod prune;
mod redis;
mod renew;
mod report;
mod roots;
mod rules;
mod settled;
mod source;
mod sources;
mod tar;
mod target;
mod write;

use sekisho_certs::Clock;
use tokio::runtime::Runtime;

use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::wiring::open;
use prune::{Prune, Seen};
use source::Pair;

pub(crate) use args::Args;
pub(crate) use check::{Checked, pair};
pub(crate) use pipeline::import;
pub(crate) use report::Report;
pub(crate) use roots::Roots;
pub(crate) use rules::Rules;
pub(crate) use source::{Names, Refusal};
pub(crate) use target::Target;

pub(super) fn run(runtime: &Runtime, config: &Config, args: &Args) -> Result<Ended> {
    let (pairs, origins) = args.pairs()?;
    let now = Clock::System.now();
    let rules = args.rules(config, now)?;
    let sealer = match args.dry_run {
        true => runtime.block_on(open::if_there(config))?,
        false => Some(runtime.block_on(open::create(config))?),
    };
    let target = Target::new(sealer.as_ref(), args.dry_run);
    let roots = Roots::load(args.ca.as_deref())?;
    let mut report = Report::new(|| None);
    if args.json {
        report.begin_json();
    }
    if let Some(file) = &args.report {
        report.begin_file(file)?;
    }
    report.is_dry_run = args.dry_run;
    report.renewed = rules.renewal.map(|_| 0);
    report.seen = args.prune.then(Seen::default);
    if let Some(sealer) = sealer.as_ref().filter(|_| args.prune) {
        runtime.block_on(prune::probe(sealer.catalog().as_ref()))?;
    }
    let dates = args.dates(now);
    let check = |pair: Result<Pair, Refusal>| {
        let pair = pair?;
        check::checked(pair, dates, &roots)
    };
    let mut report = import(runtime, target, pairs, check, report, rules)?;
    let removed = match (&sealer, report.seen.take()) {
        (Some(sealer), Some(seen)) => {
            let prune = Prune {
                sealer,
                seen,
                at_most: args.prune_at_most,
                is_dry_run: args.dry_run,
            };
            runtime.block_on(prune.run(&origins, &mut report))
        }
        _ => Ok(()),
    };
    let (line, ended) = report.end()?;
    if let Some(line) = line {
        println!("{line}");
    }
    removed.map(|()| ended)
}
