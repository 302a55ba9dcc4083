//! State that clients, writers and the director share.

use std::cell::{Cell, RefCell};
use std::time::Duration;

use anyhow::Result;
use tokio::time::Instant;

use super::client::Client;
use super::judge::{Judge, Seen, Visit};
use super::ledger::HEALED;
use crate::server::Server;

pub(crate) struct Field {
    pub(crate) judge: RefCell<Judge>,
    pub(crate) servers: Vec<Server>,
    pub(crate) names: RefCell<Names>,
    pub(crate) client: Client,
    begun: Instant,
    /// Time from which all servers have recovered; None during an outage.
    whole_from: Cell<Option<Duration>>,
}

/// Hosts that clients visit.
#[derive(Debug, Default)]
pub(crate) struct Names {
    /// Hosts that never change.
    pub(crate) steady: Vec<String>,
    /// Hosts that are replaced, removed and added again.
    pub(crate) changing: Vec<String>,
    /// Hosts that are visited seldom, hence seldom cached.
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

    /// Returns the time since the start of the run.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    /// Visits a host and judges the result; None while the server is down.
    pub(crate) async fn visit(&self, server: usize, host: &str) -> Option<Seen> {
        let visit = self.look(server, host).await?;
        self.judge.borrow_mut().visit(&visit);
        Some(visit.seen)
    }

    /// Visits a host without judging the result; None while the server is down.
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

    /// Marks the start of an outage.
    pub(crate) fn breaks(&self) {
        self.whole_from.set(None);
    }

    /// Marks the end of an outage, from which all recover within [`HEALED`].
    pub(crate) fn mends(&self) {
        self.whole_from.set(Some(self.now() + HEALED));
    }

    /// Returns whether every store and server is up, and all have recovered.
    pub(crate) fn is_whole(&self) -> bool {
        let from = self.whole_from.get();
        from.is_some_and(|from| self.now() >= from)
    }
}
