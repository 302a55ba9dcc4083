//! Redis client that sends a store's lookups and does nothing else. Its CPU
//! time is what the lookups cost a server beyond its own work.

use std::cell::Cell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::Instant;

use ::redis::Value;
use ::redis::aio::MultiplexedConnection;
use anyhow::{Context, Result, ensure};
use clap::Args;
use tokio::runtime;
use tokio::task::{JoinSet, LocalSet};

use sekisho_bench::load::gate::Gate;
use sekisho_bench::load::{Names, Outcome, Tally};

/// Whom to ask for which pairs.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The address of Redis
    #[arg(long, value_name = "ADDR")]
    target: SocketAddr,

    /// Host names by number, such as 'h{n}.example.test'
    #[arg(long, value_name = "PATTERN")]
    name_pattern: String,

    /// How many hosts the pattern stands for: numbers 0 to N-1
    #[arg(long, value_name = "N")]
    count: usize,

    /// Number of the host at which the walk begins
    #[arg(long, value_name = "N", default_value_t = 0)]
    start: usize,

    /// How many pairs are read
    #[arg(long, value_name = "N")]
    calls: usize,

    /// How many are asked for at the same time, over one connection
    #[arg(long, value_name = "C", default_value_t = 16)]
    concurrency: usize,

    /// Print the result as JSON
    #[arg(long)]
    json: bool,

    /// As that of `load`
    #[arg(long)]
    gate: bool,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    LocalSet::new().block_on(&runtime, measure(options))
}

async fn measure(options: &Options) -> Result<()> {
    let names = Names::from_pattern(&options.name_pattern, options.count)?;
    let (host, port) = (options.target.ip().to_string(), options.target.port());
    let client = ::redis::Client::open((host, port))?;
    let connection = client.get_multiplexed_async_connection().await?;
    let walk = Rc::new(Walk {
        names,
        connection,
        start: options.start,
        next: Cell::new(0),
    });
    let gate = Gate(options.gate);
    walk.clone().run(WARMUP, options.concurrency).await?;
    gate.ready()?;
    walk.next.set(WARMUP);
    let outcome = walk
        .run(WARMUP + options.calls, options.concurrency)
        .await?;
    let result = if options.json {
        serde_json::to_string(&outcome)?
    } else {
        outcome.describe()
    };
    gate.done(&result)
}

struct Walk {
    names: Names,
    connection: MultiplexedConnection,
    start: usize,
    next: Cell<usize>,
}

impl Walk {
    async fn run(self: Rc<Self>, end: usize, concurrency: usize) -> Result<Outcome> {
        let begin = Instant::now();
        let mut tasks = JoinSet::new();
        for _ in 0..concurrency {
            let walk = self.clone();
            tasks.spawn_local(async move {
                let mut tally = Tally::new()?;
                while walk.next.get() < end {
                    let number = walk.next.replace(walk.next.get() + 1);
                    let begin = Instant::now();
                    walk.read(number).await?;
                    tally.operation(begin.elapsed());
                }
                anyhow::Ok(tally)
            });
        }
        let mut all = Tally::new()?;
        while let Some(tally) = tasks.join_next().await {
            all.add(&tally??)?;
        }
        Ok(all.outcome(begin.elapsed()))
    }

    /// Reads a pair as the store does, in one write: the pair, its wildcard's,
    /// and how many of the keys exist.
    async fn read(&self, number: usize) -> Result<()> {
        let name = self.names.name((self.start + number) % self.names.len());
        let parent = name.split_once('.').map_or("", |(_, parent)| parent);
        let keys = [
            format!("{name}.crt"),
            format!("{name}.key"),
            format!("*.{parent}.crt"),
            format!("*.{parent}.key"),
        ];
        let mut commands = ::redis::pipe();
        commands.cmd("MGET").arg(&keys).cmd("EXISTS").arg(&keys);
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(&commands, 0, 2).await?;
        let there = match &answers[..] {
            [Value::Array(values), Value::Int(2)] => values.len() == 4,
            _ => false,
        };
        ensure!(there, "Redis does not hold the pair of {name}");
        Ok(())
    }
}

/// Examples below `--help`.
pub(crate) const EXAMPLES: &str = "\
Examples:
  sekisho-bench redis --target 127.0.0.1:6379 --name-pattern 'h{n}.example.test' \\
      --count 100000 --calls 10000
";

const WARMUP: usize = 500;
