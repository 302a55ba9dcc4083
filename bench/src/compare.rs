//! Comparison of sekisho and nginx, with the same certificates and the same
//! client.

mod apache;
mod browsers;
mod catalog;
mod client;
pub(crate) mod codings;
mod condition;
mod counters;
mod creation;
mod hanging;
mod kernel;
mod left_out;
mod limit;
mod machine;
mod mark;
mod markdown;
mod measure;
mod meter;
mod nginx;
mod options;
mod pages;
mod paper;
mod password;
mod peers;
mod php;
mod prepare;
mod relay;
mod report;
mod round;
mod rows;
mod scripts;
mod sekisho;
mod server;
mod services;
mod setup;
mod simulation;
mod sites;
mod stores;
mod table;
mod tied;
mod upstreams;
mod workspace;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};

pub(crate) use self::options::{EXAMPLES, Options};
pub(crate) use self::paper::{
    EVALUATION_EXAMPLES, EXAMPLES as PAPER_EXAMPLES, EvaluationOptions, PaperOptions, evaluation,
    run as paper,
};

use self::counters::Support;
use self::left_out::Lack;
use self::prepare::{StoreKey, Unprepared, prepare, store_of};
use self::report::{Report, RowResult};
use self::rows::Row;
use self::services::Services;
use self::setup::Place;
use self::stores::STORE_ROWS;
use self::table::ROWS;
use self::upstreams::Upstreams;
use self::workspace::Workspace;

pub(crate) fn run(options: &Options) -> Result<()> {
    if options.list {
        for row in ROWS {
            let heavy = if row.heavy { " (not in --quick)" } else { "" };
            println!("{:16} {}{heavy}", row.id, row.title);
        }
        for row in STORE_ROWS {
            println!("{:16} {} (with --stores)", row.id, row.title);
        }
        return Ok(());
    }
    block_on(compare(options))
}

/// Runs a comparison until it ends or a signal ends it.
fn block_on(comparison: impl Future<Output = Result<()>>) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    // Dropping the future ends every child process, however the comparison
    // ends.
    let outcome = runtime.block_on(async {
        tokio::select! {
            outcome = comparison => outcome,
            stopped = stop() => stopped,
        }
    });
    runtime.shutdown_timeout(Duration::ZERO);
    outcome
}

async fn stop() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    bail!("stopped by a signal; the servers have been ended")
}

async fn compare(options: &Options) -> Result<()> {
    let rows = options.selected()?;
    let date = machine::date()?;
    let workspace = Workspace::open(&options.work)?;
    let unprepared = prepare(options, &workspace, &rows).await;
    let services = services(options, &workspace, &rows, &unprepared).await?;
    // Before the upstreams start: they have as many connections as the servers.
    settle(options.client_core);
    let upstreams = Upstreams::start(&rows, &workspace, options).await?;
    let support = Support::probe();
    eprintln!("hardware counters: {}", support.describe());
    let mut report = Report {
        title: format!("Comparison of {date}"),
        command: machine::command_line(),
        facts: machine::facts(options, &support),
        // From bench/results.
        guide: "../README.md",
        rows: Vec::new(),
    };
    for row in rows {
        let place = Place {
            options,
            workspace: &workspace,
            services: &services,
            upstreams: &upstreams,
            support: &support,
        };
        let missing = unprepared.get(&store_of(options, row));
        report
            .rows
            .push(round::measure(place, row, missing, None).await);
        // The report is written after every row: an aborted run keeps its
        // finished rows.
        if !options.train {
            write(&options.out, &date, &report)?;
        }
    }
    judge(&report)
}

/// # Errors
/// If a case failed, or if a peer is not installed.
fn judge(report: &Report) -> Result<()> {
    let failed: usize = report.rows.iter().map(RowResult::failures).sum();
    let left_out = report.rows.iter().flat_map(|row| &row.left_out);
    let missing = left_out.filter(|case| case.lack == Lack::Program);
    let failed = failed + missing.count();
    ensure!(
        failed == 0,
        "{failed} cases failed; the reason stands above"
    );
    Ok(())
}

/// Starts the services that the rows need.
///
/// # Errors
/// If these rows differ in their hosts: a service is filled once.
async fn services(
    options: &Options,
    workspace: &Workspace,
    rows: &[&Row],
    unprepared: &BTreeMap<StoreKey, Unprepared>,
) -> Result<Services> {
    let cases = rows.iter().flat_map(|row| row.cases);
    let cases = cases.filter(|case| round::is_run(options, case));
    let wanted: BTreeSet<_> = cases
        .flat_map(|case| case.setup.services())
        .copied()
        .collect();
    let mut of_stores = rows.iter().filter(|row| row.needs_service());
    let Some(row) = of_stores.next() else {
        return Ok(Services::default());
    };
    let store = store_of(options, row);
    if let Some(other) = of_stores.find(|other| store_of(options, other) != store) {
        let (one, other) = (row.id, other.id);
        bail!("{one} and {other} differ in their hosts; run them one by one, by --rows");
    }
    let missing = unprepared.get(&store);
    if let Some(Unprepared::Everything(why)) = missing {
        bail!("{why}");
    }
    let mut services = Services::start(&wanted, workspace, options, row.key, store.1).await?;
    if let Some(round_trip) = row.round_trip {
        services.move_away(round_trip)?;
    }
    Ok(services)
}

fn write(out: &Path, name: &str, report: &Report) -> Result<()> {
    fs::create_dir_all(out).with_context(|| format!("cannot make {}", out.display()))?;
    let markdown = out.join(format!("{name}.md"));
    fs::write(&markdown, markdown::render(report))?;
    let json = serde_json::to_string_pretty(report)? + "\n";
    fs::write(out.join(format!("{name}.json")), json)?;
    eprintln!("  wrote {}", markdown.display());
    Ok(())
}

/// Pins this process to the client's core: it polls servers while they start.
/// Raises the limit of open files to the hard limit, for its children too.
fn settle(core: usize) {
    pin(&core.to_string());
    adjust("prlimit", &["--nofile=20000:", "--pid"]);
}

/// Pins all threads of this process to a list of cores.
fn pin(cores: &str) {
    adjust("taskset", &["-acp", cores]);
}

/// Runs a program on this process, whose id is the last argument.
fn adjust(program: &str, arguments: &[&str]) {
    let id = std::process::id().to_string();
    let done = Command::new(program).args(arguments).arg(id).output();
    if !done.is_ok_and(|output| output.status.success()) {
        eprintln!("{program} {} failed; going on without", arguments.join(" "));
    }
}
