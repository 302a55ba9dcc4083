//! Flood test: what one client's flood costs its neighbours.
//!
//! Neighbours send requests over open HTTP/1.1 connections at a steady rate.
//! For each kind of flood they are measured twice: on a quiet server, and
//! during a flood. Another thread floods the server, and reconnects as soon as the
//! server ends a connection.

pub(crate) mod attacker;

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use anyhow::{Result, anyhow, ensure};
use clap::Args;
use tokio::time::{MissedTickBehavior, interval};

use self::attacker::{Flooding, Kind, Target};
use sekisho_bench::load::client::Client;
use sekisho_bench::load::{Failure, Outcome, Tally};
use sekisho_bench::tls::{Group, Offer, Trust, Version};

/// Whom to flood, with what, and who is measured.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// The server's TLS address; of this machine alone
    #[arg(long, value_name = "ADDR")]
    target: SocketAddr,

    /// A host that it serves
    #[arg(long, value_name = "NAME")]
    name: String,

    /// Path that the neighbours request
    #[arg(long, value_name = "PATH", default_value = "/")]
    path: String,

    /// Which frames; all kinds if none is named
    #[arg(long, value_enum, value_name = "KIND", value_delimiter = ',')]
    kinds: Vec<Kind>,

    /// How long each of the two measurements of a kind takes
    #[arg(long, value_name = "S", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=60))]
    seconds: u64,

    /// Fail if a neighbour's median grows by more than this
    #[arg(long, value_name = "RATIO", default_value_t = 1.5)]
    at_most: f64,
}

pub(crate) fn run(options: &Options) -> Result<()> {
    let target = options.target;
    ensure!(
        target.ip().to_canonical().is_loopback(),
        "{target} is not on this machine: floods are sent to loopback addresses alone"
    );
    crate::block_on(measure(options))
}

async fn measure(options: &Options) -> Result<()> {
    let kinds = match options.kinds.is_empty() {
        true => Kind::ALL.to_vec(),
        false => options.kinds.clone(),
    };
    let mut worst = 0.0_f64;
    println!("flood           quiet p50/p99 µs  flood p50/p99 µs  ratio  written/s connections");
    let target = Target {
        address: options.target,
        host: options.name.clone(),
        path: options.path.clone(),
        fields: String::new(),
        net: None,
        per_prefix: usize::MAX,
    };
    let over = Duration::from_secs(options.seconds);
    for kind in kinds {
        let quiet = neighbours(&target, over).await?;
        let flooding = Flooding::start(&target, kind)?;
        let flood = neighbours(&target, over).await;
        let sent = flooding.stop()?;
        let flood = flood?;
        let (before, during) = (&quiet.operation_us, &flood.operation_us);
        let ratio = during.p50 as f64 / before.p50.max(1) as f64;
        worst = worst.max(ratio);
        println!(
            "{:<15} {:>9}/{:<8} {:>8}/{:<9} {ratio:<6.2} {:<9.0} {}",
            kind.name(),
            before.p50,
            before.p99,
            during.p50,
            during.p99,
            sent.frames as f64 / flood.seconds,
            sent.connections,
        );
        ensure!(sent.frames > 0, "nothing was sent");
    }
    let bound = options.at_most;
    ensure!(
        worst <= bound,
        "a neighbour's median grew {worst:.2} times, {bound} is allowed"
    );
    Ok(())
}

/// Measures requests on open connections, at a rate that leaves the server
/// mostly idle.
pub(crate) async fn neighbours(target: &Target, over: Duration) -> Result<Outcome> {
    let client = client(target)?;
    let mut connections = Vec::new();
    for _ in 0..NEIGHBOURS {
        connections.push(
            client
                .open(&target.host)
                .await
                .map_err(|failure| failed(&failure))?,
        );
    }
    let mut tally = Tally::new()?;
    let mut buffer = Vec::new();
    let mut ticks = interval(PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    for turn in (0..NEIGHBOURS).cycle() {
        if begun.elapsed() >= over {
            break;
        }
        ticks.tick().await;
        let (path, host, fields) = (&target.path, &target.host, &target.fields);
        let asked = client.request_with(&mut connections[turn], path, host, fields, &mut buffer);
        tally.operation(asked.await.map_err(|failure| failed(&failure))?);
    }
    Ok(tally.outcome(begun.elapsed()))
}

/// Measures connections with one request each, from the connect to the answer.
pub(crate) async fn newcomers(target: &Target, over: Duration) -> Result<Outcome> {
    let client = client(target)?;
    let mut tally = Tally::new()?;
    let mut buffer = Vec::new();
    let mut ticks = interval(VISIT_PAUSE);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let begun = Instant::now();
    while begun.elapsed() < over {
        ticks.tick().await;
        let visit = client.visit(&target.host, Some(&target.path), &mut buffer);
        tally.operation(visit.await.map_err(|failure| failed(&failure))?.whole);
    }
    Ok(tally.outcome(begun.elapsed()))
}

/// Sends one request on a connection of its own; returns how long that took.
pub(crate) async fn visitor(target: &Target) -> Result<Duration> {
    let client = client(target)?;
    let begun = Instant::now();
    let opened = client.open(&target.host).await;
    let mut connection = opened.map_err(|failure| failed(&failure))?;
    let (path, host, fields) = (&target.path, &target.host, &target.fields);
    let mut buffer = Vec::new();
    let asked = client.request_with(&mut connection, path, host, fields, &mut buffer);
    asked.await.map_err(|failure| failed(&failure))?;
    Ok(begun.elapsed())
}

fn client(target: &Target) -> Result<Client> {
    let offer = Offer {
        version: Version::Tls13,
        group: Group::X25519,
        trust: Trust::Anyone,
        resume: None,
    };
    Client::new(target.address, &offer, DEADLINE)
}

fn failed(failure: &Failure) -> anyhow::Error {
    anyhow!("a neighbour failed: {}", failure.kind())
}

/// Text below `--help`.
pub(crate) const EXAMPLES: &str = "\
Give the server a core of its own; the flood and the neighbours share the others.
Frames are written, not taken: most stay in the kernel when the server ends the
connection.

Examples:
  sekisho-system-tests flood --target 127.0.0.1:8443 --name h0.example.test
  taskset -c 1 sekisho-system-tests flood --target 127.0.0.1:8443 --name h0.example.test \\
      --kinds ping,reset --seconds 5
";

const NEIGHBOURS: usize = 8;
/// Pause between two requests, over all neighbours.
const PAUSE: Duration = Duration::from_millis(2);
/// Pause between two connections of one request.
const VISIT_PAUSE: Duration = Duration::from_millis(10);
const DEADLINE: Duration = Duration::from_secs(20);

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    #[test]
    fn only_this_machine_is_flooded() {
        let line = ["flood", "--target", "192.0.2.1:443", "--name", "a.test"];
        let error = run(&Line::parse_from(line).options).unwrap_err();
        assert!(error.to_string().contains("loopback"), "{error}");
    }
}
