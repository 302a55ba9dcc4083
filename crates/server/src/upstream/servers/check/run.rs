//! Runs active checks, each until it is no longer used.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use super::probe::probe;
use super::{Check, Started};
use crate::upstream::parts::Upstreams;
use crate::upstream::servers::Server;

/// Checks that workers start, to be run on the background runtime.
pub(in crate::upstream) struct Checking(pub(super) mpsc::Receiver<Started>);

impl Checking {
    /// Runs checks until this future is dropped.
    pub(in crate::upstream) async fn run(self, upstreams: Arc<Upstreams>) {
        let probe = move |server: Arc<Server>, check: Arc<Check>| {
            let upstreams = Arc::clone(&upstreams);
            async move { probe(&upstreams, &server, &check).await }
        };
        self.run_with(probe).await;
    }

    /// Runs checks. `probe` sends the request of one and judges the answer; an error
    /// says what is wrong with the server. The time of a probe is bounded.
    pub(super) async fn run_with<P, F>(mut self, probe: P)
    where
        P: Fn(Arc<Server>, Arc<Check>) -> F + Clone + Send + 'static,
        F: Future<Output = Option<Result<(), String>>> + Send + 'static,
    {
        let mut running = JoinSet::new();
        loop {
            tokio::select! {
                started = self.0.recv() => match started {
                    Some(started) => drop(running.spawn(started.run(probe.clone()))),
                    None => return,
                },
                Some(_) = running.join_next() => {}
            }
        }
    }
}

impl Started {
    /// Sends a request per interval until no site uses the check.
    async fn run<P, F>(self, probe: P)
    where
        P: Fn(Arc<Server>, Arc<Check>) -> F,
        F: Future<Output = Option<Result<(), String>>>,
    {
        let Self {
            server,
            check,
            permit: _permit,
        } = self;
        let common = &server.common;
        loop {
            let begun = Instant::now();
            let probe = probe(Arc::clone(&server), Arc::clone(&check));
            if let Some(probed) = probe.await {
                if probed.is_err() {
                    common.metrics.upstream().checks_failed.inc();
                }
                if check.note(probed.is_ok()) {
                    common.check_turned(&server.address, probed.err());
                }
            }
            sleep_until(begun + check.active.interval).await;
            if common.checks.end_unused(&check, common.now()) {
                return;
            }
        }
    }
}
