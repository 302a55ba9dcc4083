//! `sekisho cert import`, in the order of its data:
//!
//! 1. `args` names the sources. `sources` opens each one and recognises its `layout`.
//! 2. `folder`, `archive` (over `tar`), `list`, `acme_json` or `redis` reads a `Pair` (`source`).
//! 3. `pipeline` has pairs checked on all cores: `check`, with `roots`, makes each one `Checked`.
//! 4. `write` stores a batch of them in `target` by its `plan`, to which `rules`, `settled`,
//!    `deferred` and `renew` contribute. `report` counts what became of each.
//! 5. `prune` removes what the sources no longer have. `watch` begins again with the first step.

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
mod watch;
mod write;

use rustix::process::nice;
use sekisho_certs::credential::Dates;
use sekisho_certs::{Clock, Origin, Sealer};
use tokio::runtime::Runtime;

use crate::config::Config;
use crate::terminal::failure::{Ended, Interrupted, Result};
use crate::wiring::open;
use pipeline::ending;
use prune::{Prune, SeenHosts};
use source::Pair;

pub(crate) use args::Args;
pub(crate) use check::{Checked, check_pair};
pub(crate) use pipeline::import;
pub(crate) use report::Report;
pub(crate) use roots::Roots;
pub(crate) use rules::Rules;
pub(crate) use source::{Names, Refusal};
pub(crate) use target::Target;

pub(super) fn run(runtime: &Runtime, config: &Config, args: &Args) -> Result<Ended> {
    // Servers beside it come first.
    nice(19)?;
    let mut layouts = Vec::new();
    let (pairs, origins) = args.pairs(&mut layouts)?;
    let rules = args.rules(config, Clock::System.now())?;
    let sealer = match args.dry_run {
        true => runtime.block_on(open::if_there(config))?,
        false => Some(runtime.block_on(open::create(config))?),
    };
    let import = Import {
        runtime,
        config,
        args,
        sealer: sealer.as_ref(),
        roots: Roots::load(args.ca.as_deref())?,
    };
    if let Some(sealer) = sealer.as_ref().filter(|_| args.watch) {
        return watch::run(&import, sealer, &origins, &mut layouts);
    }
    let mut report = Report::new(|| None);
    if args.json {
        report.begin_json();
    }
    if let Some(file) = &args.report {
        report.begin_file(file)?;
    }
    report.seen = args.prune.then(SeenHosts::default);
    let (report, removed) = import.round(pairs, &origins, report, rules)?;
    let (line, ended) = report.end()?;
    line.iter().for_each(|line| println!("{line}"));
    removed.map(|()| ended)
}

/// Parts that all rounds of an import share.
struct Import<'a> {
    runtime: &'a Runtime,
    config: &'a Config,
    args: &'a Args,
    sealer: Option<&'a Sealer>,
    roots: Roots,
}

impl Import<'_> {
    /// Imports pairs, and removes what the sources no longer have if the report has noted what
    /// they have. Returns the report, and whether that could be removed.
    fn round(
        &self,
        pairs: impl Iterator<Item = Result<Pair, Refusal>> + Send,
        origins: &[Origin],
        mut report: Report,
        rules: Rules,
    ) -> Result<(Report, Result<()>)> {
        let (runtime, args) = (self.runtime, self.args);
        report.is_dry_run = args.dry_run;
        report.renewed = rules.renewal.map(|_| 0);
        let dates = match args.allow_expired {
            true => Dates::Any,
            false => Dates::ValidAt(Clock::System.now()),
        };
        let check = |pair: Result<Pair, Refusal>| check::checked(pair?, dates, &self.roots);
        let mut ending = runtime.block_on(async { ending() })?;
        let target = Target::new(self.sealer, args.dry_run);
        let mut report = import(runtime, target, pairs, check, report, rules)?;
        let (Some(sealer), Some(seen)) = (self.sealer, report.seen.take()) else {
            return Ok((report, Ok(())));
        };
        let prune = Prune { sealer, seen, args };
        let removed = runtime.block_on(async {
            tokio::select! {
                removed = prune.run(origins, &mut report) => removed,
                () = &mut ending => Err(Interrupted.into()),
            }
        });
        Ok((report, removed))
    }
}
