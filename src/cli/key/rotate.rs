//! `sekisho key rotate`

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use indicatif::{HumanCount, ProgressBar};
use sekisho_certs::seal::{Sealer, Walk};
use sekisho_certs::{Clock, Lease, StoreError};
use tokio::time::sleep;

use super::KeyId;
use super::tally::{PAGE, Tally};
use crate::config::Config;
use crate::terminal::failure::{Ended, Result};
use crate::terminal::progress;
use crate::wiring::open;

#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The key that is to seal [default: the newest, the last of the ring]
    #[arg(long, value_name = "ID")]
    to: Option<KeyId>,
}

pub(super) async fn run(config: &Config, args: &Args) -> Result<Ended> {
    let sealer = &open::sealed(config).await?;
    let key = args.to.unwrap_or(KeyId(sealer.ring().newest()));
    let before = KeyId(sealer.seals_under().await?);
    let turn = take_turn(sealer).await?;
    let rotated = rotate(sealer, &turn, key).await;
    // A lease that can't be released expires.
    let _ = turn.release().await;
    let outcome = rotated.context("stopped; run it again to go on")?;
    if before != key {
        println!("the key {key} seals from now on, in place of {before}");
    }
    let sealed = HumanCount(outcome.sealed);
    let left = outcome.tally;
    let under = left.under(key.0);
    let seconds = outcome.seconds;
    println!("sealed {sealed} again in {seconds:.1} s; under {key}: {under}");
    for error in &outcome.failed {
        eprintln!("refused: {error}");
    }
    let others: Vec<_> = left.keys().filter(|other| *other != key.0).collect();
    for other in &others {
        let (under, other) = (left.under(*other), KeyId(*other));
        eprintln!("left under {other}: {under}");
    }
    Ok(Ended::of(others.is_empty()))
}

/// Result of a pass through all secrets.
#[derive(Default)]
struct Outcome {
    /// Secrets sealed again, in this pass and earlier ones.
    sealed: u64,
    /// The first secrets that don't open.
    failed: Vec<StoreError>,
    /// Secrets by key at the beginning of the pass.
    tally: Tally,
    seconds: f64,
}

/// Makes `key` the sealing key, and then seals all other secrets again. From
/// then on no program seals under another key.
async fn rotate(sealer: &Sealer, turn: &Lease, key: KeyId) -> Result<Outcome> {
    let begun = Instant::now();
    sealer.seal_under(key.0).await?;
    let bar = progress::bar(|| None);
    let mut sealed = 0;
    loop {
        let mut outcome = pass(sealer, turn, &bar).await?;
        if outcome.sealed == 0 {
            bar.finish_and_clear();
            outcome.sealed = sealed;
            outcome.seconds = begun.elapsed().as_secs_f64();
            return Ok(outcome);
        }
        sealed += outcome.sealed;
    }
}

/// Passes through all secrets once.
async fn pass(sealer: &Sealer, turn: &Lease, bar: &ProgressBar) -> Result<Outcome> {
    let (mut outcome, mut walk) = (Outcome::default(), Walk::default());
    bar.reset();
    loop {
        let page = sealer.secrets(&mut walk, PAGE).await?;
        if page.is_empty() {
            return Ok(outcome);
        }
        outcome.tally.add(&page);
        if !turn.prolong().await? {
            bail!("another rotation has taken over");
        }
        let resealed = sealer.reseal(&page).await?;
        outcome.sealed += resealed.sealed;
        let room = MAX_NAMED.saturating_sub(outcome.failed.len());
        outcome
            .failed
            .extend(resealed.failed.into_iter().take(room));
        bar.inc(page.len() as u64);
    }
}

/// Takes the lease that lets one rotation run. That of a killed rotation expires.
async fn take_turn(sealer: &Sealer) -> Result<Lease> {
    let begun = Instant::now();
    let mut told = false;
    loop {
        let turn = Lease::take(sealer, LEASE.to_owned(), LEASE_TIME, &Clock::System).await?;
        if let Some(turn) = turn {
            return Ok(turn);
        }
        if begun.elapsed() > LEASE_TIME + LEASE_TIME / 2 {
            bail!("another rotation is running; it does the same");
        }
        if !std::mem::replace(&mut told, true) {
            eprintln!("waiting: another rotation runs, or was just killed");
        }
        sleep(POLL_INTERVAL).await;
    }
}

const LEASE: &str = "key-rotation";
/// Duration of the lease: far longer than a page takes, and short enough for an
/// operator to wait.
const LEASE_TIME: Duration = Duration::from_secs(10);
/// Interval of checks whether another rotation has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(250);
/// Named secrets that don't open; the counts include the rest.
const MAX_NAMED: usize = 100;

const EXAMPLES: &str = "\
Every server must have the key before: copy the key file first. From the first
moment on nobody seals under an older key. What lies in the store is sealed
again page by page, while servers serve: they notice nothing of it. Stopped at
any moment, run it again: it goes on. A server without the key logs an error,
serves on what it can open, and seals nothing.

Examples:
  sekisho key rotate
  sekisho key rotate --to 1f3a90c2";
