//! Queues of handshakes whose prefix is over its budget of absent names, until
//! its token bucket refills.

use std::collections::{HashMap, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use foldhash::quality::RandomState;
use sekisho_certs::{LookupError, lock};
use tokio::time::{Instant, sleep_until};

use super::Prefix;

/// Waiting handshakes, by prefix. When no more of a prefix may wait, the oldest
/// is refused: asking more often gives no better chance.
#[derive(Debug, Default)]
pub(super) struct Over(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    waiting: usize,
    by_prefix: HashMap<Prefix, VecDeque<Arc<AtomicBool>>, RandomState>,
}

/// Handshake that waits, until it is dropped.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    over: &'a Over,
    prefix: Prefix,
    refused: Arc<AtomicBool>,
    until: Instant,
}

impl Over {
    /// Adds a handshake of a prefix, which waits at most until `deadline`.
    ///
    /// # Errors
    /// If too many handshakes of all prefixes wait.
    pub(super) fn enter(
        &self,
        prefix: Prefix,
        deadline: Instant,
    ) -> Result<Waiting<'_>, LookupError> {
        let refused = Arc::<AtomicBool>::default();
        let mut lines = lock(&self.0);
        let room = lines.waiting < MAX_WAITING;
        let line = lines.by_prefix.entry(prefix).or_default();
        if line.len() >= MAX_OF_PREFIX || !room {
            let Some(oldest) = line.pop_front() else {
                lines.by_prefix.remove(&prefix);
                return Err(LookupError::OverBudget);
            };
            oldest.store(true, Ordering::Relaxed);
            line.push_back(Arc::clone(&refused));
        } else {
            line.push_back(Arc::clone(&refused));
            lines.waiting += 1;
        }
        Ok(Waiting {
            over: self,
            prefix,
            refused,
            until: deadline.min(Instant::now() + MAX_WAIT),
        })
    }
}

impl Waiting<'_> {
    /// Waits until the bucket may have a token again.
    ///
    /// # Errors
    /// If a newer handshake of the prefix displaced it, or too little time is left.
    /// Refusing before the deadline keeps the cause: the budget.
    pub(super) async fn pause(&self) -> Result<(), LookupError> {
        let next = Instant::now() + RETRY_INTERVAL;
        if next >= self.until {
            return Err(LookupError::OverBudget);
        }
        sleep_until(next).await;
        // Relaxed: the flag guards no other data.
        if self.refused.load(Ordering::Relaxed) {
            return Err(LookupError::OverBudget);
        }
        Ok(())
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut lines = lock(&self.over.0);
        let Some(line) = lines.by_prefix.get_mut(&self.prefix) else {
            return;
        };
        let before = line.len();
        line.retain(|other| !Arc::ptr_eq(other, &self.refused));
        let left = before - line.len();
        let is_empty = line.is_empty();
        lines.waiting -= left;
        if is_empty {
            lines.by_prefix.remove(&self.prefix);
        }
    }
}

/// Time in which the default budget of 600 per minute regains one token.
const RETRY_INTERVAL: Duration = Duration::from_millis(100);
/// Longest wait. Clients retry, and longer waits would only hold more
/// handshakes.
const MAX_WAIT: Duration = Duration::from_secs(3);
/// Waiting handshakes of a prefix: a household that opens a page with an
/// uncached host per image. Their timers cost a worker less than one handshake
/// per second.
const MAX_OF_PREFIX: usize = 64;
/// Waiting handshakes of all prefixes; bounds their memory and timers.
const MAX_WAITING: usize = 4096;
