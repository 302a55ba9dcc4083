//! Chaos test: outages under load. Three servers share one PostgreSQL and one
//! Redis, which fail in every way and come back. Meanwhile hosts are added,
//! replaced and removed. The judge compares what clients see with what was
//! written.

mod authority;
mod client;
mod counts;
mod director;
mod ending;
mod field;
mod judge;
mod ledger;
mod load;
mod plan;
mod setting;
mod stores;
mod writer;

#[cfg(test)]
mod tests;

use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Args;
use tokio::runtime;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::{JoinSet, LocalSet, spawn_blocking};

use self::authority::Authority;
use self::director::Director;
use self::field::Field;
use self::ledger::State;
use self::plan::{Phase, SERVERS};
use self::setting::Setting;
use self::stores::Stores;
use self::writer::{WRITERS, Writer};
use crate::server::Server;
use sekisho_bench::load::SplitMix;
use sekisho_bench::table::Table;

/// What to run, and for how long.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Minutes that all phases take together; starting, and comparing at the
    /// end, come on top
    #[arg(long, value_name = "N", default_value = "10", value_parser = minutes)]
    minutes: f64,

    /// Seed of the order of events and of what is visited and written; the
    /// clock's if not given
    #[arg(long, value_name = "N")]
    seed: Option<u64>,

    /// Visits per second to all servers together
    #[arg(long, value_name = "N", default_value_t = 240, value_parser = clap::value_parser!(u32).range(30..=5000))]
    rate: u32,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let seed = options.seed.unwrap_or_else(of_the_clock);
    println!("seed {seed}, {} minutes", options.minutes);
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, async {
        tokio::select! {
            ended = chaos(options, seed) => ended,
            interrupted = interrupted() => interrupted,
        }
    })
}

async fn chaos(options: &Options, seed: u64) -> Result<()> {
    let mut random = SplitMix(seed);
    let whole = Duration::from_secs_f64(options.minutes * 60.0);
    let phases = plan::phases(whole, &mut random);
    let stores = spawn_blocking(Stores::start).await;
    let stores = stores.context("the stores do not start")?;
    // The shortest life of a cached entry must pass within an outage.
    let fresh = (whole / 60).max(Duration::from_secs(1));
    let setting = Setting::new(&options.sekisho, &stores.database(), &stores.redis(), fresh)?;
    let authority = Rc::new(Authority::new()?);
    let field = Rc::new(field(&setting, &authority).await?);
    let ended = events(
        options, &field, &setting, authority, stores, &phases, random,
    )
    .await;
    report(&field);
    ended?;
    table(&field).write(options.json.as_deref())?;
    let violations = field.judge.borrow().counts.violations();
    ensure!(
        violations == 0,
        "{violations} violations, see above; seed {seed}"
    );
    Ok(())
}

/// Stores the hosts, and starts three servers on their catalog.
async fn field(setting: &Setting, authority: &Authority) -> Result<Field> {
    let names = setting::names();
    setting.fill(&names, authority).await?;
    let server = |number| Server::new(setting.binary(), setting.server(number));
    let servers = (0..SERVERS).map(server);
    let field = Field::new(servers.collect(), names)?;
    {
        let names = field.names.borrow();
        let mut judge = field.judge.borrow_mut();
        for host in [&names.steady, &names.changing, &names.cold]
            .into_iter()
            .flatten()
        {
            judge
                .ledger
                .begin(host, State::Generation(0), Duration::ZERO);
            judge.ledger.acknowledge(host, Duration::ZERO);
        }
    }
    for server in &field.servers {
        server.start().await?;
    }
    Ok(field)
}

/// Runs clients and writers until the director has finished all phases.
async fn events(
    options: &Options,
    field: &Rc<Field>,
    setting: &Setting,
    authority: Rc<Authority>,
    stores: Stores,
    phases: &[Phase],
    mut random: SplitMix,
) -> Result<()> {
    let mut clients = JoinSet::new();
    let rest = Duration::from_secs(1) * (SERVERS * load::LANES.len()) as u32 / options.rate;
    for server in 0..SERVERS {
        for lane in load::LANES {
            let random = SplitMix(random.below(usize::MAX) as u64);
            clients.spawn_local(load::visit(field.clone(), server, lane, rest, random));
        }
    }
    let mut writers = JoinSet::new();
    for number in 0..WRITERS {
        let random = SplitMix(random.below(usize::MAX) as u64);
        let (field, authority) = (field.clone(), authority.clone());
        let writer = Writer::new(field, authority, setting.commands(number), number, random);
        writers.spawn_local(writer.run());
    }
    let director = Director {
        field: field.clone(),
        stores,
    };
    tokio::select! {
        directed = director.run(phases) => directed?,
        Some(broken) = writers.join_next() => return broken?,
        Some(broken) = clients.join_next() => return Ok(broken?),
    }
    // A write that this interrupts stays unacknowledged.
    writers.shutdown().await;
    clients.shutdown().await;
    ending::compare(field, setting).await
}

/// Prints the violations, and the counts as the last line.
fn report(field: &Field) {
    let judge = field.judge.borrow();
    for complaint in judge.complaints() {
        println!("violation: {complaint}");
    }
    if judge.counts.violations() > 0 {
        for (number, server) in field.servers.iter().enumerate() {
            println!("the end of the log of server {number}:\n{}", server.tail());
        }
    }
    println!("{}", judge.counts.line());
}

fn table(field: &Field) -> Table {
    let counts = &field.judge.borrow().counts;
    let mut table = Table::new("Three servers while PostgreSQL and Redis fail and come back");
    let violations = counts.violations();
    let error = (violations > 0).then(|| format!("{violations} violations"));
    table.add("sekisho", &counts.figures(), error.as_deref());
    table
}

pub(crate) async fn interrupted() -> Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::select! {
        ended = tokio::signal::ctrl_c() => ended?,
        _ = terminate.recv() => {}
    }
    bail!("interrupted")
}

fn of_the_clock() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(1, |since| u64::from(since.subsec_nanos()) ^ since.as_secs())
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|_| "expected a number of minutes")?;
    if (0.5..=1440.0).contains(&minutes) {
        return Ok(minutes);
    }
    Err("expected 0.5 to 1440 minutes".into())
}

pub(crate) const EXAMPLES: &str = "\
Starts PostgreSQL and Redis on ports and in folders of its own. It fails if a
handshake for a cached host fails on a running server, a client sees another
host's certificate or one that was replaced, a host that is there is told to
be unknown, or a write that was acknowledged is lost. The last line has the
counts.

Examples:
  sekisho-system-tests chaos
  sekisho-system-tests chaos --minutes 1 --seed 7 --sekisho target/release/sekisho";
