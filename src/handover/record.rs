//! Record of hand-overs: what `status` and the metrics say of them.

use std::sync::{Arc, Mutex};

use sekisho_certs::metrics::{Counter, Family, Gauge, Registry};
use sekisho_certs::{Clock, lock};
use sekisho_server::metrics::Metrics;

use super::message::{Control, ProcessState};
use super::take::Predecessor;

/// Hand-overs as this process knows them.
pub(crate) struct Record {
    server: Arc<Metrics>,
    state: Mutex<HandoverState>,
    handovers: Family<[(&'static str, String); 2], Counter>,
    processes: Gauge,
    connections: Gauge,
    cut: Counter,
}

/// State of hand-overs.
#[derive(Clone, Debug, Default)]
pub(crate) struct HandoverState {
    /// Hand-overs since the service was started.
    pub(crate) handovers: u64,
    /// Connections that they have cut off.
    pub(crate) cut: u64,
    /// When the first process of the service began, in seconds since the Unix epoch; none
    /// where an older program did not say.
    pub(crate) service_began: Option<i64>,
    /// Older processes, the oldest first.
    pub(crate) older: Vec<ProcessState>,
    /// The one that started this process.
    pub(crate) last: Option<Last>,
    /// The last one that failed in this process.
    pub(crate) failed: Option<Failed>,
}

/// Hand-over that started this process.
#[derive(Clone, Debug)]
pub(crate) struct Last {
    pub(crate) kind: Control,
    /// Seconds since the Unix epoch.
    pub(crate) at: i64,
    /// Lines of the configuration that are new or were removed.
    pub(crate) changed: Vec<String>,
}

/// Hand-over that failed.
#[derive(Clone, Debug)]
pub(crate) struct Failed {
    pub(crate) kind: Control,
    /// Seconds since the Unix epoch.
    pub(crate) at: i64,
    pub(crate) error: String,
}

impl Record {
    /// Begins a record.
    pub(crate) fn new(server: Arc<Metrics>, predecessor: Option<&Predecessor>) -> Self {
        let cut = Counter::default();
        let first = || HandoverState {
            service_began: Some(Clock::System.now()),
            ..HandoverState::default()
        };
        let state = predecessor.map_or_else(first, |predecessor| {
            cut.inc_by(predecessor.complete.cut);
            HandoverState {
                handovers: predecessor.complete.handovers,
                cut: predecessor.complete.cut,
                service_began: predecessor.complete.service_began,
                last: Some(Last {
                    kind: predecessor.complete.kind,
                    at: Clock::System.now(),
                    changed: Vec::new(),
                }),
                ..HandoverState::default()
            }
        });
        Self {
            server,
            state: Mutex::new(state),
            handovers: Family::default(),
            processes: Gauge::default(),
            connections: Gauge::default(),
            cut,
        }
    }

    /// Registers the metrics.
    pub(crate) fn register(&self, registry: &mut Registry) {
        for kind in [Control::Reload, Control::Upgrade] {
            for result in ["done", "failed"] {
                drop(self.handovers.get_or_create(&labels(kind, result)));
            }
        }
        let help = "Hand-overs to this process, and those that failed in it";
        registry.register("handovers", help, self.handovers.clone());
        let help = "Processes before this one that still have connections";
        registry.register("older_processes", help, self.processes.clone());
        let help = "Connections that older processes have";
        registry.register("older_connections", help, self.connections.clone());
        let help = "Connections that were cut off after hand-overs, since the service was started";
        registry.register("handover_connections_cut", help, self.cut.clone());
    }

    /// Returns the state.
    pub(crate) fn state(&self) -> HandoverState {
        lock(&self.state).clone()
    }

    /// Returns whether another process handed over to this one.
    pub(crate) fn is_successor(&self) -> bool {
        lock(&self.state).last.is_some()
    }

    /// Returns how many connections this process has open.
    pub(crate) fn connections(&self) -> u64 {
        self.server.connections_open()
    }

    /// Notes that this process has taken over.
    pub(crate) fn took_over(&self, kind: Control, older: Vec<ProcessState>) {
        self.count(kind, "done");
        let cut = lock(&self.state).cut;
        self.older(older, cut);
    }

    /// Notes how the older processes are.
    pub(crate) fn older(&self, older: Vec<ProcessState>, cut: u64) {
        let mut state = lock(&self.state);
        self.cut.inc_by(cut - state.cut);
        let living = older.iter().filter(|process| !process.idle);
        self.processes.set(living.count() as u64);
        let connections = older.iter().map(|process| process.connections);
        self.connections.set(connections.sum());
        state.cut = cut;
        state.older = older;
    }

    /// Notes which lines of the configuration are new, and which were removed.
    pub(crate) fn changed(&self, changed: Vec<String>) {
        for line in &changed {
            tracing::info!(line, "the configuration changed");
        }
        if let Some(last) = &mut lock(&self.state).last {
            last.changed = changed;
        }
    }

    /// Notes that a hand-over failed.
    pub(crate) fn failed(&self, kind: Control, error: &str) {
        self.count(kind, "failed");
        lock(&self.state).failed = Some(Failed {
            kind,
            at: Clock::System.now(),
            error: error.to_owned(),
        });
    }

    fn count(&self, kind: Control, result: &str) {
        self.handovers.get_or_create(&labels(kind, result)).inc();
    }
}

fn labels(kind: Control, result: &str) -> [(&'static str, String); 2] {
    [("kind", kind.to_string()), ("result", result.to_owned())]
}
