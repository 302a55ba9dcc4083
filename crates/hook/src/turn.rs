//! Turns of a worker's runs, by network, once runs take much of its time.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::imports::{Turn, Turns};

/// Time that the runs of one worker have used, and their turns.
pub(crate) struct WorkerTime {
    turns: Turns,
    /// Spares runs of a worker that is not busy the lock and the clock. Relaxed: one
    /// thread runs the worker's scripts.
    is_busy: AtomicBool,
    used: Mutex<Used>,
}

struct Used {
    /// Begin of the window in which `time` is counted.
    since: Instant,
    time: Duration,
    busy_until: Instant,
    /// Pause that the last stretch asks for; zero after a short one.
    pause: Duration,
}

impl WorkerTime {
    pub(crate) fn new(turns: Turns) -> Self {
        let now = Instant::now();
        Self {
            turns,
            is_busy: AtomicBool::new(false),
            used: Mutex::new(Used {
                since: now,
                time: Duration::ZERO,
                busy_until: now,
                pause: Duration::ZERO,
            }),
        }
    }

    /// Notes time that a run has used.
    pub(crate) fn spend(&self, time: Duration) {
        if time < LEAST {
            return;
        }
        let now = Instant::now();
        let mut used = self.used();
        if now.duration_since(used.since) >= WINDOW {
            (used.since, used.time) = (now, Duration::ZERO);
        }
        used.time += time;
        used.pause = if time >= LONG { time } else { Duration::ZERO };
        if used.time >= MOST {
            used.busy_until = now + WINDOW;
            self.is_busy.store(true, Relaxed);
        }
    }

    /// Tells whether runs have used [`MOST`] within [`WINDOW`], until a window later.
    pub(crate) fn is_busy(&self) -> bool {
        if !self.is_busy.load(Relaxed) {
            return false;
        }
        let is_busy = Instant::now() < self.used().busy_until;
        self.is_busy.store(is_busy, Relaxed);
        is_busy
    }

    /// Waits for a turn; none if too many runs wait for one.
    pub(crate) async fn turn(&self, client: IpAddr) -> Option<Turn> {
        (self.turns)(client).await
    }

    /// Passes a turn on. The network of a long stretch has the next one as much later:
    /// clients of others, whose handshakes take several round trips, would else wait for
    /// a stretch in each.
    pub(crate) fn pass_on(&self, turn: Turn) {
        let pause = std::mem::take(&mut self.used().pause);
        match pause.is_zero() {
            true => drop(turn),
            false => turn.rest(pause),
        }
    }

    fn used(&self) -> MutexGuard<'_, Used> {
        // Each change leaves a whole value.
        self.used.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

const WINDOW: Duration = Duration::from_millis(100);
/// Time within a window from which on runs take turns: that of one run that is cut by
/// the default of `[hook] cpu`.
const MOST: Duration = Duration::from_millis(20);
/// Shorter stretches are not counted: 400 of them in a window would make a worker busy,
/// and the handshakes around them take more.
const LEAST: Duration = Duration::from_micros(50);
/// Stretches from which on a pause follows. Those of useful scripts are shorter.
const LONG: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fifth_of_a_window_makes_a_worker_busy_for_a_window() {
        let time = WorkerTime::new(Box::new(|_| Box::pin(async { None })));
        let ms = Duration::from_millis;
        time.spend(ms(10));
        time.spend(Duration::from_micros(49));
        assert!(!time.is_busy());
        advance(ms(100)).await;
        time.spend(ms(15));
        assert!(!time.is_busy(), "the first window is over");
        advance(ms(50)).await;
        time.spend(ms(5));
        advance(ms(99)).await;
        assert!(time.is_busy());
        advance(ms(1)).await;
        assert!(!time.is_busy());
        // Under load, each window makes it busy again before the last one is over.
        for _ in 0..50 {
            time.spend(ms(20));
            assert!(time.is_busy());
            advance(ms(20)).await;
            assert!(time.is_busy());
        }
    }
}
