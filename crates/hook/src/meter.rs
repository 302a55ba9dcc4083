//! CPU time of a run.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

/// CPU meter of one Luau state, asked by its interrupts: at the end of each loop,
/// with each call, and by functions that match patterns.
///
/// A single thread at a time runs the state, below its lock: relaxed ordering
/// suffices.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    interrupts: AtomicU32,
    /// CPU time that this stretch may still take, in nanoseconds.
    left: AtomicU64,
    /// CPU time of the thread at which the clock was first read in this stretch;
    /// 0 before that.
    begun: AtomicU64,
    cut: AtomicBool,
    /// Line at which the run was cut; 0 if it is not known.
    line: AtomicU32,
}

impl Meter {
    /// Begins a stretch: what a run does between two waits.
    /// A run that has waited is measured from the start: many short stretches count, too.
    pub(crate) fn begin(&self, left: Duration, has_waited: bool) {
        self.interrupts.store(0, Relaxed);
        self.left
            .store(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX), Relaxed);
        let begun = if has_waited { thread_time() } else { 0 };
        self.begun.store(begun, Relaxed);
        self.cut.store(false, Relaxed);
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

    /// Tells whether the run must end. The clock is a system call: it is read with
    /// every 16th interrupt, and never in runs that have fewer.
    pub(crate) fn is_over(&self) -> bool {
        if self.is_cut() {
            return true;
        }
        let count = self.interrupts.load(Relaxed).wrapping_add(1);
        self.interrupts.store(count, Relaxed);
        if !count.is_multiple_of(EVERY) {
            return false;
        }
        let now = thread_time();
        let begun = self.begun.load(Relaxed);
        if begun == 0 {
            self.begun.store(now, Relaxed);
            return false;
        }
        let over = now - begun > self.left.load(Relaxed);
        self.cut.store(over, Relaxed);
        over
    }

    /// Tells whether the run was cut before.
    pub(crate) fn is_cut(&self) -> bool {
        self.cut.load(Relaxed)
    }

    /// Ends the stretch. Returns the CPU time that it took, without its first
    /// interrupts, and whether the run was cut.
    pub(crate) fn end(&self) -> (Duration, bool) {
        let used = match self.begun.load(Relaxed) {
            0 => 0,
            begun => thread_time() - begun,
        };
        (Duration::from_nanos(used), self.cut.load(Relaxed))
    }
}

/// Returns the CPU time of this thread in nanoseconds, at least 1.
pub(crate) fn thread_time() -> u64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    let nanos = u64::try_from(time.tv_nsec).unwrap_or(0);
    (seconds * 1_000_000_000 + nanos).max(1)
}

const EVERY: u32 = 16;
