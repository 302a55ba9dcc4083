//! Hardware counters: instructions and cycles of a server.
//!
//! CPU time changes with the clock rate and with the machine's other work.
//! Instructions and cycles change far less. Many virtual machines give their
//! guests no counters. The report then says this, and uses CPU time alone.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::time::Duration;

use anyhow::{Context, Result};
use perf_event::events::{Event, Hardware};
use perf_event::{Builder, Counter, CounterData};
use rustix::io::Errno;

use super::rows::figure;
use sekisho_bench::accounting::threads;

/// Kind of hardware counter, with the name of its figure.
#[derive(Clone, Copy, Debug)]
struct Kind<E> {
    name: &'static str,
    event: E,
    side: Side,
}

/// Code whose events count.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Side {
    User,
    Kernel,
    Both,
}

/// Kinds of events that this machine counts, and why it does not count the
/// others.
#[derive(Debug)]
pub(crate) struct Support {
    kinds: Vec<Kind<Hardware>>,
    /// Names of the missing kinds, by reason.
    missing: BTreeMap<String, Vec<&'static str>>,
}

impl Support {
    /// Tries each kind on this process.
    pub(crate) fn probe() -> Self {
        Self::probe_with(|kind| kind.open(OWN_THREAD).map(drop))
    }

    fn probe_with(open: impl Fn(&Kind<Hardware>) -> io::Result<()>) -> Self {
        let mut support = Self {
            kinds: Vec::new(),
            missing: BTreeMap::new(),
        };
        for kind in HARDWARE {
            match open(&kind) {
                Ok(()) => support.kinds.push(kind),
                Err(error) => {
                    let names = support.missing.entry(describe(&error)).or_default();
                    names.push(kind.name);
                }
            }
        }
        support
    }

    /// Describes the counters in one line for the report.
    pub(crate) fn describe(&self) -> String {
        let counted: Vec<_> = self.kinds.iter().map(|kind| kind.name).collect();
        let mut parts = Vec::new();
        if !counted.is_empty() {
            parts.push(format!("counted: {}", counted.join(", ")));
        }
        for (reason, names) in &self.missing {
            parts.push(format!("not counted: {} ({reason})", names.join(", ")));
        }
        if !counted.contains(&figure::CYCLES) {
            parts.push("ratios are of CPU time".to_owned());
        }
        parts.join("; ")
    }

    /// Starts to count events of this process and its descendants.
    pub(crate) fn start(&self, root: u32) -> Result<Counters> {
        Counters::start(&self.kinds, root)
    }
}

/// Running counters, one of each kind per thread.
#[derive(Debug)]
pub(crate) struct Counters(Vec<(&'static str, Vec<Counter>)>);

impl Counters {
    fn start<E: Event + Copy>(kinds: &[Kind<E>], root: u32) -> Result<Self> {
        let threads = threads(root)?;
        let mut running = Vec::new();
        for kind in kinds {
            let counters = kind
                .open_all(&threads)
                .with_context(|| format!("cannot count {}", kind.name))?;
            running.push((kind.name, counters));
        }
        Ok(Self(running))
    }

    /// Returns the sums over all threads, without kinds that were never
    /// scheduled on the processor.
    pub(crate) fn read(mut self) -> Result<Vec<(&'static str, f64)>> {
        let mut sums = Vec::new();
        for (name, counters) in &mut self.0 {
            let readings = counters.iter_mut().map(Counter::read_full);
            let readings: Vec<CounterData> = readings.collect::<io::Result<_>>()?;
            if let Some(sum) = sum(readings.iter().map(Reading::from)) {
                sums.push((*name, sum));
            }
        }
        Ok(sums)
    }
}

impl<E: Event + Copy> Kind<E> {
    /// Opens a counter for each thread, except for threads that have ended.
    fn open_all(&self, threads: &BTreeSet<u32>) -> io::Result<Vec<Counter>> {
        let mut counters = Vec::new();
        for thread in threads {
            match self.open(*thread) {
                Ok(counter) => counters.push(counter),
                Err(error) if Errno::from_io_error(&error) == Some(Errno::SRCH) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(counters)
    }

    /// Opens a counter for one thread and, by inheritance, for threads that it
    /// starts later.
    fn open(&self, thread: u32) -> io::Result<Counter> {
        Builder::new(self.event)
            .observe_pid(thread.cast_signed())
            .any_cpu()
            .inherit(true)
            .exclude_user(self.side == Side::Kernel)
            .exclude_kernel(self.side == Side::User)
            .enabled(true)
            .build()
    }
}

/// Value of a counter, and the share of time in which it was scheduled. The
/// processor may have fewer counters than there are events to count.
#[derive(Clone, Copy, Debug)]
struct Reading {
    count: u64,
    enabled: Duration,
    running: Duration,
}

impl From<&CounterData> for Reading {
    fn from(data: &CounterData) -> Self {
        Self {
            count: data.count(),
            enabled: data.time_enabled().unwrap_or_default(),
            running: data.time_running().unwrap_or_default(),
        }
    }
}

/// Sums the values, each scaled to its whole time. None if a thread ran and was
/// never counted.
fn sum(readings: impl Iterator<Item = Reading>) -> Option<f64> {
    let mut sum = 0.0;
    for reading in readings {
        // A thread that slept all the time was neither enabled nor running.
        if !reading.enabled.is_zero() {
            if reading.running.is_zero() {
                return None;
            }
            let scale = reading.enabled.as_secs_f64() / reading.running.as_secs_f64();
            sum += reading.count as f64 * scale;
        }
    }
    Some(sum)
}

fn describe(error: &io::Error) -> String {
    match Errno::from_io_error(error) {
        Some(Errno::NOENT | Errno::OPNOTSUPP | Errno::NODEV | Errno::NOSYS) => {
            "not supported by this machine".to_owned()
        }
        Some(Errno::ACCESS | Errno::PERM) => {
            "not permitted; run as root, or set kernel.perf_event_paranoid to 1".to_owned()
        }
        _ => error.to_string(),
    }
}

/// Thread id by which perf_event_open(2) means the calling thread.
const OWN_THREAD: u32 = 0;

const HARDWARE: [Kind<Hardware>; 3] = [
    Kind {
        name: figure::CYCLES,
        event: Hardware::CPU_CYCLES,
        side: Side::Both,
    },
    Kind {
        name: figure::USER,
        event: Hardware::INSTRUCTIONS,
        side: Side::User,
    },
    Kind {
        name: figure::KERNEL,
        event: Hardware::INSTRUCTIONS,
        side: Side::Kernel,
    },
];

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Instant;

    use perf_event::events::Software;

    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn reading(count: u64, enabled: u32, running: u32) -> Reading {
        Reading {
            count,
            enabled: MS * enabled,
            running: MS * running,
        }
    }

    #[test]
    fn threads_are_summed_and_scaled_to_their_whole_time() {
        let whole = [reading(300, 10, 10), reading(0, 0, 0), reading(100, 10, 5)];
        assert_eq!(sum(whole.into_iter()), Some(500.0));
        assert_eq!(
            sum([reading(300, 10, 10), reading(0, 10, 0)].into_iter()),
            None
        );
    }

    #[test]
    fn missing_counters_are_named_with_their_reason() {
        let refuse = |kind: &Kind<Hardware>| match kind.side {
            Side::Both => Err(Errno::OPNOTSUPP.into()),
            Side::Kernel => Err(Errno::ACCESS.into()),
            Side::User => Ok(()),
        };
        let support = Support::probe_with(refuse);
        assert_eq!(
            support.describe(),
            "counted: user instructions; \
             not counted: kernel instructions (not permitted; run as root, or set \
             kernel.perf_event_paranoid to 1); \
             not counted: cycles (not supported by this machine); ratios are of CPU time"
        );
        let all = Support::probe_with(|_| Ok(()));
        assert_eq!(
            all.describe(),
            "counted: cycles, user instructions, kernel instructions"
        );
    }

    #[test]
    fn a_machine_without_counters_measures_on() {
        let support = Support::probe();
        let counters = support.start(std::process::id()).unwrap();
        let names: Vec<_> = counters
            .read()
            .unwrap()
            .iter()
            .map(|(name, _)| *name)
            .collect();
        let kinds = support.kinds.iter().map(|kind| kind.name);
        assert!(names.len() <= kinds.count());
        let missing: usize = support.missing.values().map(Vec::len).sum();
        assert_eq!(support.kinds.len() + missing, HARDWARE.len());
    }

    /// Uses a software counter, which works on every machine through the same
    /// calls.
    #[test]
    fn threads_that_start_later_are_counted() {
        let clock = Kind {
            name: "clock",
            event: Software::TASK_CLOCK,
            side: Side::User,
        };
        let counters = match Counters::start(&[clock], std::process::id()) {
            Ok(counters) => counters,
            Err(error) => {
                // A sandbox may forbid perf_event_open.
                let error = error.downcast_ref::<io::Error>().expect("the call's error");
                assert!(describe(error).starts_with("not "), "{error}");
                return;
            }
        };
        let spin = || {
            let begin = Instant::now();
            while begin.elapsed() < 20 * MS {}
        };
        thread::spawn(spin).join().unwrap();
        let sums = counters.read().unwrap();
        assert_eq!(sums.len(), 1);
        assert!(sums[0].1 > 0.0, "{sums:?}");
    }
}
