//! Load generator. It uses one thread, and a second one to keep a schedule: `taskset` pins
//! both to one core.

pub mod client;
mod failure;
pub mod gate;
mod http;
mod multiplexed;
pub mod names;
mod options;
mod pace;
mod run;
mod tally;
mod websocket;

#[cfg(test)]
mod tests;

use std::rc::Rc;

use anyhow::{Context, Result, ensure};
use tokio::runtime;
use tokio::task::LocalSet;

pub use self::failure::Failure;
pub use self::names::{Names, SplitMix};
pub use self::options::{EXAMPLES, Options};
pub use self::tally::{Outcome, Tally};

use self::client::Part;
use self::gate::Gate;
use self::run::Run;

pub fn run(options: &Options) -> Result<()> {
    options.check()?;
    let runtime = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start the runtime")?;
    let run = Rc::new(Run::new(options)?);
    LocalSet::new().block_on(&runtime, async {
        if let Some(part) = options.hellos {
            hellos(run, options, part).await
        } else if options.idle && options.http2.is_some() {
            idle_multiplexed(run, options).await
        } else if options.idle {
            idle(run, options).await
        } else if let Some(streams) = options.http2 {
            multiplexed(run, options, streams).await
        } else if options.keepalive.is_some() {
            keepalive(run, options).await
        } else {
            handshakes(run, options).await
        }
    })
}

async fn handshakes(run: Rc<Run>, options: &Options) -> Result<()> {
    let gate = Gate(options.gate);
    run.handshakes(Some(options.warmup), None).await?;
    gate.ready()?;
    let (count, seconds) = (options.handshakes, options.seconds);
    let outcome = match options.rate {
        Some(rate) => run.paced(rate, count, seconds).await?,
        None => run.handshakes(count, seconds).await?,
    };
    finish(gate, &outcome, options.json)
}

async fn keepalive(run: Rc<Run>, options: &Options) -> Result<()> {
    let gate = Gate(options.gate);
    let connections = run.connections().await?;
    run.requests(&connections, Some(options.warmup), None)
        .await?;
    gate.ready()?;
    let each = options.keepalive.unwrap_or_default();
    let all = each.saturating_mul(options.concurrency as u64);
    let outcome = run
        .requests(&connections, Some(all), options.seconds)
        .await?;
    finish(gate, &outcome, options.json)
}

async fn multiplexed(run: Rc<Run>, options: &Options, streams: usize) -> Result<()> {
    let gate = Gate(options.gate);
    let connections = run.multiplexed().await?;
    let warmup = Some(options.warmup);
    run.streams(&connections, streams, warmup, None).await?;
    gate.ready()?;
    let each = options.keepalive.unwrap_or_default();
    let all = Some(each.saturating_mul(options.concurrency as u64));
    let outcome = run
        .streams(&connections, streams, all, options.seconds)
        .await?;
    finish(gate, &outcome, options.json)
}

async fn idle(run: Rc<Run>, options: &Options) -> Result<()> {
    let gate = Gate(options.gate);
    let connections = run.connections().await?;
    gate.ready()?;
    let outcome = run.hold(&connections, options.seconds).await?;
    finish(gate, &outcome, options.json)
}

async fn idle_multiplexed(run: Rc<Run>, options: &Options) -> Result<()> {
    let gate = Gate(options.gate);
    let connections = run.multiplexed().await?;
    gate.ready()?;
    let outcome = run.hold_multiplexed(&connections, options.seconds).await?;
    finish(gate, &outcome, options.json)
}

async fn hellos(run: Rc<Run>, options: &Options, part: Part) -> Result<()> {
    let gate = Gate(options.gate);
    let hellos = run.hellos(part).await?;
    gate.ready()?;
    finish(gate, &hellos.outcome().await, options.json)
}

fn finish(gate: Gate, outcome: &Outcome, json: bool) -> Result<()> {
    let result = if json {
        serde_json::to_string(outcome)?
    } else {
        outcome.describe()
    };
    gate.done(&result)?;
    let all = outcome.failed + outcome.operations;
    ensure!(outcome.failed == 0, "{} of {all} failed", outcome.failed);
    Ok(())
}
