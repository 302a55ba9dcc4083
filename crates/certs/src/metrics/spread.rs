//! Counter without a cache line that all threads write.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use prometheus_client::metrics::counter::Atomic;

/// Count that is spread over cache lines by thread; its value is their sum.
///
/// A line that every core writes with each request moves between them, 100 ns each time
/// (docs/performance.md). Relaxed ordering suffices: a count orders nothing else.
#[derive(Debug, Default)]
pub struct Spread([Line; LINES]);

/// A count on a cache line of its own.
#[derive(Debug, Default)]
#[repr(align(64))]
struct Line(AtomicU64);

impl Atomic<u64> for Spread {
    /// Returns what this thread's line held.
    fn inc(&self) -> u64 {
        self.inc_by(1)
    }

    /// Returns what this thread's line held.
    fn inc_by(&self, more: u64) -> u64 {
        let Self(lines) = self;
        lines[LINE.with(|line| *line)].0.fetch_add(more, Relaxed)
    }

    fn get(&self) -> u64 {
        self.0.iter().map(|line| line.0.load(Relaxed)).sum()
    }
}

thread_local! {
    /// Line of this thread. Threads beyond [`LINES`] share.
    static LINE: usize = THREADS.fetch_add(1, Relaxed) % LINES;
}

/// Threads that have counted.
static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Lines of a counter. With 64 workers, four share each.
const LINES: usize = 16;

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::thread;

    use super::*;

    #[test]
    fn no_count_of_any_thread_is_lost() {
        let count = Arc::new(Spread::default());
        let threads: Vec<_> = (0..2 * LINES as u64)
            .map(|more| {
                let count = Arc::clone(&count);
                thread::spawn(move || {
                    count.inc();
                    count.inc_by(more);
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        let all = 2 * LINES as u64;
        assert_eq!(count.get(), all + all * (all - 1) / 2);
    }
}
