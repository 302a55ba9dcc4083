//! Clients of other networks, whose service must go on.

use std::time::Duration;

use anyhow::Result;
use tokio::time::{Instant, sleep};

use sekisho_bench::load::client::Client;
use sekisho_bench::load::{Outcome, Tally};

/// Visits hosts one after the other, spread over a time. A name that stands there once
/// and was not visited is loaded from the catalog.
pub(crate) async fn visit(client: &Client, names: &[String], over: Duration) -> Result<Outcome> {
    visit_until(client, names, over, Duration::MAX).await
}

/// Visits as [`visit`] does, and none once the time is over.
pub(crate) async fn visit_within(
    client: &Client,
    names: &[String],
    over: Duration,
) -> Result<Outcome> {
    visit_until(client, names, over, over).await
}

async fn visit_until(
    client: &Client,
    names: &[String],
    over: Duration,
    end: Duration,
) -> Result<Outcome> {
    let mut tally = Tally::new()?;
    let mut buffer = Vec::new();
    let begun = Instant::now();
    for (number, name) in (0_u32..).zip(names) {
        let count = u32::try_from(names.len())?.max(1);
        sleep((over * number / count).saturating_sub(begun.elapsed())).await;
        if begun.elapsed() >= end {
            break;
        }
        match client.visit(name, Some("/"), &mut buffer).await {
            Ok(visit) => tally.operation(visit.whole),
            Err(failure) => tally.failure(&failure, name),
        }
    }
    Ok(tally.outcome(begun.elapsed()))
}

/// Says what went wrong; none if all were served, the slowest within a second.
pub(super) fn complaint(outcome: &Outcome) -> Option<String> {
    if outcome.failed > 0 {
        return Some(format!(
            "{} visits failed: {:?}",
            outcome.failed, outcome.errors
        ));
    }
    let slowest = Duration::from_micros(outcome.operation_us.max);
    (slowest > SLOWEST).then(|| format!("a visit took {slowest:?}"))
}

/// Hundreds of times what a load takes: other processes run on this machine.
const SLOWEST: Duration = Duration::from_secs(2);
