//! What clients, writers and the director share.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::client::Client;
use super::judge::{Judge, Seen, Visit};
use super::ledger::HEALED;
use super::server::Server;

pub(crate) struct Field {
    pub(crate) judge: RefCell<Judge>,
    pub(crate) servers: Vec<Server>,
    pub(crate) names: RefCell<Names>,
    pub(crate) client: Client,
    begun: Instant,
    /// From when on all is well; none while something is away.
    whole_from: Cell<Option<Duration>>,
}

/// The hosts that clients visit.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Never changed.
    pub(crate) steady: Vec<String>,
    /// Replaced, removed and added again.
    pub(crate) changing: Vec<String>,
    /// Visited seldom: seldom cached.
    pub(crate) cold: Vec<String>,
}

impl Field {
    pub(crate) fn new(servers: Vec<Server>, names: Names) -> Result<Self> {
        Ok(Self {
            judge: RefCell::default(),
            servers,
            names: RefCell::new(names),
            client: Client::new()?,
            begun: Instant::now(),
            whole_from: Cell::new(Some(Duration::ZERO)),
        })
    }

    /// Since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Visits a host and lets it be judged; none while the server is down.
    pub(crate) async fn visit(&self, server: usize, host: &str) -> Option<Seen> {
        let visit = self.look(server, host).await?;
        self.judge.borrow_mut().visit(&visit);
        Some(visit.seen)
    }

    /// Visits a host without judging what came of it.
    pub(crate) async fn look(&self, server: usize, host: &str) -> Option<Visit> {
        let serving = &self.servers[server];
        let (address, process) = serving.serving()?;
        let from = self.now();
        let seen = self.client.visit(address, host).await;
        Some(Visit {
            server,
            process,
            running: serving.serving() == Some((address, process)),
            host: host.to_owned(),
            from,
            to: self.now(),
            seen,
        })
    }

    /// Something is taken away.
    pub(crate) fn breaks(&self) {
        self.whole_from.set(None);
    }

    /// All is back, and will soon be noticed by all.
    pub(crate) fn mends(&self) {
        self.whole_from.set(Some(self.now() + HEALED));
    }

    /// Whether everything is there, and all have noticed.
    pub(crate) fn is_whole(&self) -> bool {
        let from = self.whole_from.get();
        from.is_some_and(|from| self.now() >= from)
    }
}
