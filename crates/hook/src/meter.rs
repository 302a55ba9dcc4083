//! CPU time of a run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU meter of one Luau state, asked by its interrupts: at the end of each loop,
/// with each call, and by functions that match patterns.
///
/// CPU time never passes faster than other time. The thread's CPU clock, a system call,
/// is therefore read only once the clock of the process shows that enough has passed.
///
/// A single thread at a time runs the state, below its lock: relaxed ordering
/// suffices.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// Begin of this stretch by [`now`], as are `read` and `started`.
    entered: AtomicU64,
    /// Interrupts until the next reading.
    skip: AtomicU32,
    /// Time of the last reading in this stretch, in nanoseconds; 0 before the first.
    read: AtomicU64,
    /// CPU time that this stretch may still take, in nanoseconds.
    left: AtomicU64,
    /// Time, and CPU time of the thread, since which the stretch is measured. `begun` is
    /// 0 before that; `started` is the time of the first reading then.
    started: AtomicU64,
    begun: AtomicU64,
    cut: AtomicBool,
    /// Line at which the run was cut; 0 if it is not known.
    line: AtomicU32,
}

impl Meter {
    /// Begins a stretch: what a run does between two waits.
    /// With `whole`, it is measured from the start: many short stretches count, too.
    pub(crate) fn begin(&self, left: Duration, whole: bool) {
        self.skip.store(STRIDE, Relaxed);
        self.read.store(0, Relaxed);
        self.started.store(0, Relaxed);
        self.left
            .store(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        self.begun.store(0, Relaxed);
        self.cut.store(false, Relaxed);
        let now = now();
        self.entered.store(now, Relaxed);
        if whole {
            self.start(now);
        }
    }

    /// Notes the line of a cut.
    pub(crate) fn note(&self, line: u32) {
        self.line.store(line, Relaxed);
    }

    /// Returns the line at which the last run was cut.
    pub(crate) fn line(&self) -> Option<u32> {
        match self.line.load(Relaxed) {
            0 => None,
            line => Some(line),
        }
    }

    /// Measures from now on, and reads the clock with the next interrupt: a call begins
    /// that may take long.
    pub(crate) fn hurry(&self) {
        let now = now();
        self.read.store(now, Relaxed);
        self.start(now);
        self.skip.store(1, Relaxed);
    }

    /// Tells whether the run must end. The clock is read with every fourth interrupt, or
    /// with each while they are far apart, and never in runs that have fewer.
    pub(crate) fn is_over(&self) -> bool {
        if self.is_cut() {
            return true;
        }
        let skip = self.skip.load(Relaxed);
        if skip > 1 {
            self.skip.store(skip - 1, Relaxed);
            return false;
        }
        let now = now();
        let before = self.read.swap(now, Relaxed);
        let is_slow = before != 0 && now - before > SLOW;
        let stride = if is_slow { 1 } else { STRIDE };
        self.skip.store(stride, Relaxed);
        let over = self.exceeds(now);
        self.cut.store(over, Relaxed);
        over
    }

    fn exceeds(&self, now: u64) -> bool {
        let started = self.started.load(Relaxed);
        let begun = self.begun.load(Relaxed);
        let left = self.left.load(Relaxed);
        if started == 0 {
            self.started.store(now, Relaxed);
        } else if begun == 0 && now - started > SLOW {
            self.start(now);
        }
        // Other threads may have had the processor meanwhile.
        begun != 0 && now - started > left && thread_time() - begun > left
    }

    fn start(&self, now: u64) {
        if self.begun.load(Relaxed) == 0 {
            self.started.store(now, Relaxed);
            self.begun.store(thread_time(), Relaxed);
        }
    }

    /// Tells whether the run was cut before.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Ends the stretch.
    pub(crate) fn end(&self) -> Ended {
        let used = match self.begun.load(Relaxed) {
            0 => 0,
            begun => thread_time() - begun,
        };
        Ended {
            used: Duration::from_nanos(used),
            took: Duration::from_nanos(now() - self.entered.load(Relaxed)),
            was_cut: self.cut.load(Relaxed),
        }
    }
}

/// End of a stretch.
pub(crate) struct Ended {
    /// CPU time of the stretch without its first interrupts.
    pub(crate) used: Duration,
    /// Time of the stretch. A call that matches a long text has no interrupt that would
    /// begin to measure CPU time.
    pub(crate) took: Duration,
    pub(crate) was_cut: bool,
}

/// Returns the time of a clock that never goes back, in nanoseconds.
fn now() -> u64 {
    nanoseconds(ClockId::Monotonic)
}

/// Returns the CPU time of this thread in nanoseconds.
fn thread_time() -> u64 {
    nanoseconds(ClockId::ThreadCPUTime)
}

/// Reads a clock: at least 1.
fn nanoseconds(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    (seconds * 1_000_000_000 + nanos).max(1)
}

const STRIDE: u32 = 4;
/// Nanoseconds between two readings that make each interrupt read the clock; also of a
/// run whose CPU time is not measured.
const SLOW: u64 = 100_000;
