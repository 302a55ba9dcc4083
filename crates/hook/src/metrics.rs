//! Counters of a hook. No label grows with names, keys or clients.

use std::fmt;
use std::sync::{Arc, Weak};

use sekisho_certs::metrics::{Collector, Counter, Counters, DescriptorEncoder, Registry, gauge};

use crate::choice::{Choice, Source};
use crate::failure::Failure;
use crate::imports::Imports;
use crate::report::RegionUse;
use crate::shared::Shared;

/// Counters that only grow.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    lookup: Counter,
    used: Counter,
    default: Counter,
    refused: Counter,
    made: Counter,
    error: Counter,
    cpu: Counter,
    memory: Counter,
    deadline: Counter,
    overloaded: Counter,
    broken_off: Counter,
    hit: Counter,
    loaded: Counter,
    absent: Counter,
    stale: Counter,
    failed: Counter,
    replaced: Counter,
}

impl Metrics {
    fn register(&self, registry: &mut Registry) {
        let each = [
            ("lookup", self.lookup.clone()),
            ("use", self.used.clone()),
            ("default", self.default.clone()),
            ("refuse", self.refused.clone()),
            ("certificate", self.made.clone()),
            ("error", self.error.clone()),
            ("cpu", self.cpu.clone()),
            ("memory", self.memory.clone()),
            ("deadline", self.deadline.clone()),
            ("overloaded", self.overloaded.clone()),
            ("broken_off", self.broken_off.clone()),
        ];
        let label = "outcome";
        let help = "Runs of the hook: what the script chose, or why the run failed";
        registry.register("hook_runs", help, Counters { label, each });
        let each = [
            RegionUse::Hit,
            RegionUse::Loaded,
            RegionUse::Absent,
            RegionUse::Stale,
            RegionUse::Failed,
        ];
        let each = each.map(|how| (how.as_str(), self.of(how).clone()));
        let label = "result";
        let help = "Answers of tls:cached, by what the key led to";
        registry.register("hook_cached", help, Counters { label, each });
        let help = "Luau states replaced since the script itself kept most of their memory";
        registry.register("hook_states_replaced", help, self.replaced.clone());
    }

    /// Counts the end of a run.
    pub(crate) fn ended<M>(&self, choice: &Choice<M>, source: Source, failure: Option<&Failure>) {
        debug_assert_eq!(failure.is_some(), source == Source::Failed);
        match failure {
            None => self.chose(choice),
            Some(Failure::Script(_)) => &self.error,
            Some(Failure::Cpu(_)) => &self.cpu,
            Some(Failure::Memory { .. }) => &self.memory,
            Some(Failure::Deadline) => &self.deadline,
            Some(Failure::Overloaded) => &self.overloaded,
            Some(Failure::BrokenOff | Failure::LoadBrokenOff) => &self.broken_off,
        }
        .inc();
    }

    pub(crate) fn region(&self, how: RegionUse) {
        self.of(how).inc();
    }

    pub(crate) fn replaced(&self) {
        self.replaced.inc();
    }

    fn chose<M>(&self, choice: &Choice<M>) -> &Counter {
        match choice {
            Choice::Lookup => &self.lookup,
            Choice::Use(_) => &self.used,
            Choice::Default => &self.default,
            Choice::Refuse(_) => &self.refused,
            Choice::Made(_) => &self.made,
        }
    }

    fn of(&self, how: RegionUse) -> &Counter {
        match how {
            RegionUse::Hit => &self.hit,
            RegionUse::Loaded => &self.loaded,
            RegionUse::Absent => &self.absent,
            RegionUse::Stale => &self.stale,
            RegionUse::Failed => &self.failed,
        }
    }
}

/// Registers the metrics of a hook.
pub(crate) fn register<I: Imports>(shared: &Arc<Shared<I>>, registry: &mut Registry) {
    shared.metrics.register(registry);
    registry.register_collector(Box::new(Sizes(Arc::downgrade(shared))));
}

/// Gauges that are computed with each scrape.
struct Sizes<I: Imports>(Weak<Shared<I>>);

impl<I: Imports> fmt::Debug for Sizes<I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Sizes")
    }
}

impl<I: Imports> Collector for Sizes<I> {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Some(shared) = self.0.upgrade() else {
            return Ok(());
        };
        let usage = shared.region.usage();
        let waiting = shared.flight.waiting() as u64;
        let to = &mut encoder;
        gauge(
            to,
            "hook_runs_waiting",
            "Runs of the hook that wait",
            &waiting,
        )?;
        let help = "Certificates and other choices that tls:cached keeps";
        gauge(to, "hook_region_entries", help, &usage.entries)?;
        let help = "Bytes of what tls:cached keeps";
        gauge(to, "hook_region_bytes", help, &usage.bytes)?;
        let help = "Bytes of the cache that scripts use";
        gauge(to, "hook_cache_bytes", help, &shared.cache.bytes())
    }
}
