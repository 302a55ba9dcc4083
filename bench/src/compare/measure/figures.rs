//! Figures that several measures have.

use std::time::Duration;

use super::Sample;
use crate::compare::meter::Used;
use crate::compare::rows::figure;
use sekisho_bench::accounting::Memory;
use sekisho_bench::load::Outcome;

pub(super) fn operation_figures(outcome: &Outcome, used: &Used, memory: Memory) -> Sample {
    let operations = outcome.operations.max(1) as f64;
    let seconds = used.cpu.as_secs_f64();
    let mut figures = vec![(figure::CPU, seconds * 1e6 / operations)];
    let counted = used.counted.iter();
    figures.extend(counted.map(|(name, sum)| (*name, sum / operations)));
    figures.extend([
        (figure::RATE, outcome.per_second),
        (figure::BUSY, busy(used, outcome)),
        (figure::CLIENT_BUSY, outcome.core_percent),
        (figure::P50, outcome.operation_us.p50 as f64),
        (figure::P99, outcome.operation_us.p99 as f64),
        (figure::RSS, mib(memory.rss)),
        (figure::PSS, mib(memory.pss)),
    ]);
    if outcome.resumed > 0 {
        let share = 100.0 * outcome.resumed as f64 / outcome.handshakes.max(1) as f64;
        figures.push((figure::RESUMED, share));
    }
    figures
}

/// Returns the percentage of its core that a server used.
pub(super) fn busy(used: &Used, outcome: &Outcome) -> f64 {
    100.0 * used.cpu.as_secs_f64() / outcome.seconds.max(1e-9)
}

/// Returns the growth of PSS, in which a page shared by two processes counts
/// once.
pub(super) fn growth(before: Memory, after: Memory, things: usize) -> Sample {
    let grown = after.pss as f64 - before.pss as f64;
    vec![
        (figure::EACH, grown / 1024.0 / things as f64),
        (figure::RSS, mib(after.rss)),
        (figure::PSS, mib(after.pss)),
    ]
}

pub(super) fn mib(bytes: u64) -> f64 {
    bytes as f64 / 1024.0 / 1024.0
}

pub(super) fn millis(duration: Duration) -> f64 {
    duration.as_secs_f64() * 1e3
}
