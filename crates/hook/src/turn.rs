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
    /// Time used since the last turn was granted.
    in_turn: Duration,
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
                in_turn: Duration::ZERO,
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
        used.in_turn += time;
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

    /// Waits for a turn; none if too many runs wait for one. The turn's time counts from
    /// here on: runs before may have used some without a turn, or of another network.
    pub(crate) async fn turn(&self, client: IpAddr) -> Option<Turn> {
        let turn = (self.turns)(client).await?;
        self.used().in_turn = Duration::ZERO;
        Some(turn)
    }

    /// Passes a turn on. If it took long, its network has the next one as much later:
    /// clients of others, whose handshakes take several round trips, would else wait for
    /// a stretch in each.
    pub(crate) fn pass_on(&self, turn: Turn) {
        let used = std::mem::take(&mut self.used().in_turn);
        match used >= LONG {
            true => turn.rest(used),
            false => drop(turn),
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
/// Time of a turn from which on a pause follows. Useful scripts take less.
const LONG: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::time::advance;

    use super::*;
    use crate::imports::PassOn;

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
    /// The worker's own time, as of a run that began before it was busy, is nobody's.
    #[tokio::test(start_paused = true)]
    async fn a_stretch_without_a_turn_lets_no_network_rest() {
        let (time, rests) = recording();
        let turn = async || time.turn(NEIGHBOUR).await.expect("a turn");
        time.spend(Duration::from_millis(20));
        let short = turn().await;
        time.spend(Duration::from_micros(49));
        time.pass_on(short);
        // Nor is it after a turn.
        time.spend(Duration::from_millis(20));
        let short = turn().await;
        time.spend(Duration::from_millis(4));
        time.pass_on(short);
        assert!(rests.lock().unwrap().is_empty());
    }

    /// A run that found no memory spends its stretch and then a short collection.
    #[tokio::test(start_paused = true)]
    async fn all_of_a_turn_counts() {
        let (time, rests) = recording();
        let ms = Duration::from_millis;
        for spent in [[20, 1], [3, 2], [1, 20], [2, 2]] {
            let turn = time.turn(NEIGHBOUR).await.expect("a turn");
            for spent in spent {
                time.spend(ms(spent));
            }
            time.pass_on(turn);
        }
        assert_eq!(*rests.lock().unwrap(), [ms(21), ms(5), ms(21)]);
    }

    const NEIGHBOUR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    type Rests = Arc<Mutex<Vec<Duration>>>;

    /// Turn that records the pause after it.
    struct Recorded(Rests);

    impl PassOn for Recorded {
        fn rest(self: Box<Self>, pause: Duration) {
            self.0.lock().unwrap().push(pause);
        }
    }

    fn recording() -> (WorkerTime, Rests) {
        let rests = Rests::default();
        let all = Arc::clone(&rests);
        let turns: Turns = Box::new(move |_| {
            let turn: Turn = Box::new(Recorded(Arc::clone(&all)));
            Box::pin(async { Some(turn) })
        });
        (WorkerTime::new(turns), rests)
    }
}
