//! Generations of the configuration, as new connections see them.

use std::cell::Cell;
use std::time::Duration;

use sekisho_bench::load::Failure;
use tokio::time::Instant;

/// Each configuration names a number, which a redirect tells.
#[derive(Default)]
pub(super) struct Generations {
    newest: Cell<u32>,
    /// Time of the first answer with the newest.
    since: Cell<Option<Instant>>,
    /// Time of the last answer with an older one.
    last_old: Cell<Option<Instant>>,
    /// Longest visit since it was asked for.
    slowest: Cell<Duration>,
}

impl Generations {
    /// Notes what a connection was told that was begun at this time.
    ///
    /// For a moment both processes accept; then only the new one may.
    pub(super) fn see(&self, generation: u32, begun: Instant) -> Result<(), Failure> {
        let newest = self.newest.get();
        if generation > newest {
            self.newest.set(generation);
            self.since.set(Some(Instant::now()));
        }
        if generation < newest {
            self.last_old.set(Some(Instant::now()));
            if self.since.get().is_some_and(|since| begun > since + BOTH) {
                return Err(Failure::Response("answered by the old configuration"));
            }
        }
        self.slowest.set(self.slowest.get().max(begun.elapsed()));
        Ok(())
    }

    pub(super) fn newest(&self) -> u32 {
        self.newest.get()
    }

    /// Returns the time of the first answer with the newest.
    pub(super) fn since(&self) -> Option<Instant> {
        self.since.get()
    }

    /// Returns the time of the last answer that was older.
    pub(super) fn last_old(&self) -> Option<Instant> {
        self.last_old.get()
    }

    /// Returns the longest visit since the last call.
    pub(super) fn take_slowest(&self) -> Duration {
        self.slowest.take()
    }
}

/// Returns the host of a redirect of this generation.
pub(super) fn host(generation: u32) -> String {
    format!("{HOST}{generation}.test")
}

/// Reads the generation of a redirect.
pub(super) fn parse(location: &str) -> Option<u32> {
    let rest = location.strip_prefix("https://")?.strip_prefix(HOST)?;
    rest.split('.').next()?.parse().ok()
}

const HOST: &str = "generation-";
/// Longest time in which both processes accept.
const BOTH: Duration = Duration::from_secs(1);
