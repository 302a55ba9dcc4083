//! Limits under attack: for each, an attack on one tenant while another tenant's clients
//! are measured, five times, and the server's memory. Clients attack, and upstreams.

mod attacks;
mod hostile;
mod locked;
mod pool;
mod programs;
mod setting;
mod spoilt;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::time::sleep;

use self::attacks::{Place, attacks};
use self::hostile::Hostile;
use self::programs::Program;
use self::setting::Setting;
use crate::flood::attacker::{Flooding, Kind, Target};
use crate::flood::{neighbours, newcomers, visitor};
use crate::sites::raise_open_files;
use sekisho_bench::accounting::resident;
use sekisho_bench::load::Outcome;
use sekisho_bench::table::{Figures, Table};

/// Which server, and which attacks.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's binary
    #[arg(long, value_name = "FILE", default_value = "target/release/sekisho")]
    sekisho: PathBuf,

    /// Only attacks whose name contains this
    #[arg(long, value_name = "TEXT", default_value = "")]
    only: String,

    /// Times that each is measured
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,

    /// Seconds of each measurement
    #[arg(long, value_name = "S", default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Write the result as JSON into this file too
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    // For 6,000 attackers.
    raise_open_files()?;
    crate::block_on(attack(options))
}

async fn attack(options: &Options) -> Result<()> {
    let mut broken = 0;
    let mut count = 0;
    let mut table = Table::new("A neighbour's requests without and under each attack");
    println!("{:<30} quiet p99   flood p99  memory  sent", "attack");
    for (name, kind, place) in attacks() {
        if !name.contains(&options.only) {
            continue;
        }
        count += 1;
        let judged = judge(options, kind, place).await;
        let judged = judged.with_context(|| name.clone())?;
        let verdict = match judged.complaint() {
            None => "",
            Some(complaint) => {
                broken += 1;
                complaint
            }
        };
        println!("{name:<30} {} {verdict}", judged.line());
        table.add(&name, &judged.figures(), judged.complaint());
    }
    println!("{count} attacks, {broken} limits broken");
    table.write(options.json.as_deref())?;
    ensure!(broken == 0, "a limit does not hold");
    Ok(())
}

/// Medians of the rounds.
struct Judged {
    kind: Kind,
    place: Place,
    quiet_us: u64,
    flood_us: u64,
    grown: u64,
    frames: u64,
    connections: u64,
}

impl Judged {
    fn line(&self) -> String {
        format!(
            "{:>6} µs {:>8} µs {:>+5} MiB  {} in {} connections",
            self.quiet_us,
            self.flood_us,
            self.grown >> 20,
            self.frames,
            self.connections
        )
    }

    fn figures(&self) -> Figures {
        vec![
            ("flood p99 µs", self.flood_us as f64),
            ("quiet p99 µs", self.quiet_us as f64),
            ("memory grown MiB", self.grown as f64 / f64::from(1 << 20)),
            ("pieces sent", self.frames as f64),
            ("connections", self.connections as f64),
        ]
    }

    fn complaint(&self) -> Option<&'static str> {
        let times_slower = self.flood_us as f64 > self.quiet_us as f64 * MOST_TIMES;
        let slower = match is_at_limit(self.kind) {
            true => self.flood_us > MOST_AT_LIMIT_US,
            false => times_slower && self.flood_us > self.quiet_us + MOST_SLOWER_US,
        };
        if slower {
            return Some("TOO SLOW");
        }
        let (pieces, bodies) = match (self.kind, self.place) {
            (_, Place::Scripted(Hostile::Stuck | Hostile::Lavish))
            | (_, Place::Program(Program::Deaf, _))
            | (Kind::LateEnds, _) => (0, MOST_OF_BODIES),
            (_, Place::Scripted(Hostile::Zeros | Hostile::Letters)) => (0, MOST_OF_ENCODERS),
            _ => (self.kind.streams() as u64 * MOST_PER_STREAM, 0),
        };
        let each = MOST_PER_CONNECTION + pieces;
        let most = MOST_GROWN + self.kind.connections() as u64 * each + bodies;
        (self.grown > most).then_some("TOO MUCH MEMORY")
    }
}

/// Attacks a server of its own.
async fn judge(options: &Options, kind: Kind, place: Place) -> Result<Judged> {
    let setting = Setting::new(&options.sekisho, place, connections_limit(kind)).await?;
    let over = Duration::from_secs(options.seconds);
    let neighbour = setting.neighbour(place)?;
    let target = setting.target(place)?;
    // Memory that the server allocates for its first clients stays with it.
    clients(kind, &neighbour, over).await?;
    let pid = setting.server.pid()?;
    let before = resident(pid)?;
    let (mut quiet, mut flood) = (Vec::new(), Vec::new());
    let (mut most, mut frames, mut connections) = (0, 0, 0);
    let (mut asked, mut pages) = (0, 0);
    let mut users = locked::Users::default();
    for _ in 0..options.rounds {
        quiet.push(clients(kind, &neighbour, over).await?.operation_us.p99);
        if matches!(place, Place::Locked(_)) {
            locked::remember(&target).await?;
        }
        let flooding = Flooding::start(&target, kind)?;
        let answered = setting.hostile.pages();
        let measured = measure(kind, &neighbour, over, pid, &mut most).await;
        let visited = match place {
            Place::Locked(_) => locked::visit(&neighbour, &target, &mut users).await,
            Place::Texts => visitor(&Setting::download(&target)).await.map(drop),
            _ => Ok(()),
        };
        let sent = flooding.stop()?;
        visited?;
        let measured = measured?;
        flood.push(measured.operation_us.p99);
        asked += measured.operations;
        pages += setting.hostile.pages() - answered;
        frames += sent.frames;
        connections += sent.connections;
        sleep(REST).await;
    }
    ensure!(frames > 0, "nothing was sent to {}", target.host);
    if place == Place::Scripted(Hostile::Spoilt) {
        let ejections = setting.ejections().await?;
        ensure!(ejections > 0.0, "the attacker's backend was never ejected");
        ensure!(
            pages >= asked / 4,
            "the spoilt backend got {pages} of the {asked} requests of another tenant"
        );
    }
    setting.end().await?;
    Ok(Judged {
        kind,
        place,
        quiet_us: median(quiet),
        flood_us: median(flood),
        grown: most.saturating_sub(before),
        frames,
        connections,
    })
}

/// Measures the neighbour's clients, and the most memory, once the attack has begun.
async fn measure(
    kind: Kind,
    neighbour: &Target,
    over: Duration,
    pid: u32,
    most: &mut u64,
) -> Result<Outcome> {
    sleep(WARM_UP).await;
    let mut watching = async || -> Result<Outcome> {
        loop {
            *most = resident(pid)?.max(*most);
            sleep(WATCH).await;
        }
    };
    tokio::select! {
        outcome = clients(kind, neighbour, over) => outcome,
        failed = watching() => failed,
    }
}

/// Measures the neighbour's clients: requests on open connections, or, where the server
/// has more connections than it takes, new connections.
async fn clients(kind: Kind, neighbour: &Target, over: Duration) -> Result<Outcome> {
    match is_at_limit(kind) {
        true => newcomers(neighbour, over).await,
        false => neighbours(neighbour, over).await,
    }
}

fn is_at_limit(kind: Kind) -> bool {
    matches!(kind, Kind::PingingConnections | Kind::SilentConnections)
}

/// Returns `[server] connections` under an attack.
fn connections_limit(kind: Kind) -> usize {
    match kind {
        Kind::PingingConnections => 200,
        Kind::SilentConnections => 4096,
        _ => 800,
    }
}

fn median(mut values: Vec<u64>) -> u64 {
    values.sort_unstable();
    values[values.len() / 2]
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
The server gets core 1, clients and attackers core 0. Attackers come from 127.66.0.0/16.

Examples:
  sekisho-system-tests floods
  sekisho-system-tests floods --only slow --rounds 1
";

/// Growth that a neighbour's p99 may have: 1.5 times, or 5 ms.
const MOST_TIMES: f64 = 1.5;
const MOST_SLOWER_US: u64 = 5_000;
/// Most of a new connection's p99 at the limit of connections.
const MOST_AT_LIMIT_US: u64 = 100_000;
const MOST_GROWN: u64 = 24 << 20;
/// Buffers of TLS, HTTP and an answer.
const MOST_PER_CONNECTION: u64 = 96 << 10;
/// A piece of the answer, which waits for the client's window.
const MOST_PER_STREAM: u64 = 16 << 10;
/// Bodies that nobody takes: the server's bound of 256 MiB, and a quarter for memory that
/// the allocator keeps.
const MOST_OF_BODIES: u64 = 320 << 20;
/// 256 encoders of 300 KB, all that a server has.
const MOST_OF_ENCODERS: u64 = 77 << 20;
const WARM_UP: Duration = Duration::from_millis(500);
const REST: Duration = Duration::from_millis(200);
/// Between two readings of the memory.
const WATCH: Duration = Duration::from_millis(50);
