//! Counters of a hook. No label grows with names, keys or clients.

use sekisho_certs::metrics::{Counter, Counters, Registry};

use crate::choice::{Choice, Source};
use crate::failure::Failure;
use crate::report::RegionUse;

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
    timeout: Counter,
    overloaded: Counter,
    broken_off: Counter,
    cached: [Counter; RegionUse::ALL.len()],
    pub(crate) replaced: Counter,
}

impl Metrics {
    pub(crate) fn register(&self, registry: &mut Registry) {
        let each = [
            ("lookup", self.lookup.clone()),
            ("use", self.used.clone()),
            ("default", self.default.clone()),
            ("refuse", self.refused.clone()),
            ("certificate", self.made.clone()),
            ("error", self.error.clone()),
            ("cpu", self.cpu.clone()),
            ("memory", self.memory.clone()),
            ("timeout", self.timeout.clone()),
            ("overloaded", self.overloaded.clone()),
            ("broken_off", self.broken_off.clone()),
        ];
        let label = "outcome";
        let help = "Runs of the hook: what the script chose, or why the run failed";
        registry.register("hook_runs", help, Counters { label, each });
        let each = RegionUse::ALL.map(|how| (how.as_str(), self.cached[how as usize].clone()));
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
            Some(Failure::Timeout) => &self.timeout,
            Some(Failure::Overloaded) => &self.overloaded,
            Some(Failure::BrokenOff | Failure::LoadBrokenOff) => &self.broken_off,
        }
        .inc();
    }

    pub(crate) fn region(&self, how: RegionUse) {
        self.cached[how as usize].inc();
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
}
