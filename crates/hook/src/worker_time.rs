//! Time that a worker's runs use, and its permit: once runs take much of the time, they
//! wait for it, in turns of networks.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use sekisho_certs::{Prefix, lock};
use sekisho_gate::{Denied, Gate, Permit, Sharing};
use tokio::time::Instant;

/// Time that the runs of one worker have used, and the permit to run.
pub(crate) struct WorkerTime {
    gate: Gate<Prefix>,
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
    /// Time used since the permit was last given.
    with_permit: Duration,
}

impl WorkerTime {
    pub(crate) fn new() -> Self {
        let now = Instant::now();
        Self {
            gate: Gate::new(1, Sharing::AtMost(|_| 1), MAX_WAITING),
            is_busy: AtomicBool::new(false),
            used: Mutex::new(Used {
                since: now,
                time: Duration::ZERO,
                busy_until: now,
                with_permit: Duration::ZERO,
            }),
        }
    }

    /// Notes time that a run has used.
    pub(crate) fn spend(&self, time: Duration) {
        if time < LEAST {
            return;
        }
        let now = Instant::now();
        let mut used = lock(&self.used);
        if now.duration_since(used.since) >= WINDOW {
            (used.since, used.time) = (now, Duration::ZERO);
        }
        used.time += time;
        used.with_permit += time;
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
        let is_busy = Instant::now() < lock(&self.used).busy_until;
        self.is_busy.store(is_busy, Relaxed);
        is_busy
    }

    /// Waits for the permit until `until`. Its time counts from here on: runs before may
    /// have used some without a permit, or of another network.
    ///
    /// # Errors
    /// [`Denied`].
    pub(crate) async fn permit(
        &self,
        prefix: Prefix,
        until: Instant,
    ) -> Result<Permit<Prefix>, Denied> {
        let permit = self.gate.enter_until(prefix, until).await?;
        lock(&self.used).with_permit = Duration::ZERO;
        Ok(permit)
    }

    /// Passes the permit on. If it was in use for long, its network has it as much later
    /// again: clients of others, whose handshakes take several round trips, would else wait
    /// for a stretch in each.
    pub(crate) fn pass_on(&self, permit: Permit<Prefix>) {
        let used = std::mem::take(&mut lock(&self.used).with_permit);
        match used >= LONG {
            true => permit.rest(used),
            false => drop(permit),
        }
    }
}

const WINDOW: Duration = Duration::from_millis(100);
/// Time within a window from which on runs need the permit: that of one run that is cut by
/// the default of `[hook] cpu`.
const MOST: Duration = Duration::from_millis(20);
/// Shorter stretches are not counted: 400 of them in a window would make a worker busy,
/// and the handshakes around them take more.
const LEAST: Duration = Duration::from_micros(50);
/// Time with the permit from which on a pause follows. Useful scripts take less.
const LONG: Duration = Duration::from_millis(5);
/// Runs of a worker that wait for the permit. 256 runs of 20 ms, the default of `cpu`, take
/// 5 s, the default of `timeout`; most runs take less.
const MAX_WAITING: usize = 1024;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use tokio::time::advance;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_fifth_of_a_window_makes_a_worker_busy_for_a_window() {
        let time = WorkerTime::new();
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

    /// The worker's own time, as of a run that began before it was busy, is nobody's.
    #[tokio::test(start_paused = true)]
    async fn a_stretch_without_the_permit_lets_no_network_rest() {
        let time = WorkerTime::new();
        time.spend(Duration::from_millis(20));
        let (short, _) = permit(&time).await;
        time.spend(Duration::from_micros(49));
        time.pass_on(short);
        // Nor is it after a permit.
        time.spend(Duration::from_millis(20));
        let (short, rested) = permit(&time).await;
        assert_eq!(rested, Duration::ZERO);
        time.spend(Duration::from_millis(4));
        time.pass_on(short);
        assert_eq!(permit(&time).await.1, Duration::ZERO);
    }

    /// A run that found no memory spends its stretch and then a short collection.
    #[tokio::test(start_paused = true)]
    async fn all_of_the_time_with_the_permit_counts() {
        let time = WorkerTime::new();
        let ms = Duration::from_millis;
        for (spent, rests) in [([20, 1], 21), ([3, 2], 5), ([1, 20], 21), ([2, 2], 0)] {
            let (taken, _) = permit(&time).await;
            for spent in spent {
                time.spend(ms(spent));
            }
            time.pass_on(taken);
            let (next, rested) = permit(&time).await;
            assert!((ms(rests)..=ms(rests + 1)).contains(&rested), "{rested:?}");
            time.pass_on(next);
        }
    }

    /// Waits for the permit, and returns how long that took.
    async fn permit(time: &WorkerTime) -> (Permit<Prefix>, Duration) {
        let begun = Instant::now();
        let neighbour = IpAddr::from(Ipv4Addr::LOCALHOST).into();
        let until = begun + Duration::from_secs(1);
        let permit = time.permit(neighbour, until).await.expect("a permit");
        (permit, begun.elapsed())
    }
}
