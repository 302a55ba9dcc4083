//! The server that was chosen for a request, until the request ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use sekisho_gate::Denied;
use tokio::time::Instant;

use super::ejection::Trial;
use super::owned::Owner;
use super::permits::{Asker, Permit, Permits};
use super::resolve::Unresolved;
use super::servers::Server;
use super::transport::Endpoint;
use crate::limits::budget::Prefix;
use crate::observe::metrics::UpstreamResult;

/// Server that a request goes to. The request counts as in flight until this is
/// dropped: after the last byte of the answer.
pub(crate) struct Chosen {
    index: usize,
    pub(super) server: Arc<Server>,
    permits: Arc<Permits>,
    owner: Owner,
    /// Hash of the request's tenant.
    tenant: u64,
    asker: Asker,
    /// Permit to try the server, to be given back.
    trial: Trial,
    is_noted: bool,
}

/// How a request to a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer's head came.
    Answered(StatusCode),
    /// No connection came about: the name has no address, the server refused the
    /// connection or let it wait, or TLS or HTTP/2 failed.
    Unreachable,
    /// A new connection closed before an answer, or no answer came in time. A
    /// reused connection that closed is no failure of its server.
    NoAnswer,
}

/// Reason why no server can take a request: 503.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unavailable {
    /// All servers were tried.
    #[error("all servers of the upstream were tried")]
    Tried,
    /// Too many requests wait for a connection to the server.
    #[error("too many requests wait for a connection to the server")]
    Full,
    /// No connection came free in time.
    #[error("all connections to the server were in use for too long")]
    TimedOut,
}

impl Chosen {
    /// Makes the use of a server by an owner, for a tenant's host and a client.
    pub(super) fn new(
        index: usize,
        server: Arc<Server>,
        (owner, tenant, host, client): (Owner, u64, u64, Prefix),
        trial: Trial,
    ) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            index,
            permits: server.permits.of(tenant),
            server,
            owner,
            tenant,
            asker: Asker { host, client },
            trial,
            is_noted: false,
        }
    }

    /// Returns the place of the server in `Upstream::servers`.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    pub(super) fn owner(&self) -> Owner {
        self.owner
    }

    /// Returns the hash of the request's tenant.
    pub(super) fn tenant(&self) -> u64 {
        self.tenant
    }

    /// Returns the permit to use one connection to the server, if none
    /// of its client prefix has to wait for one.
    pub(super) fn permit_at_once(&self) -> Option<Permit> {
        self.permits.try_enter(self.asker)
    }

    /// Waits for the permit to use one connection to the server. To be held while a
    /// connection of HTTP/1.1 has this request, or as long as one of HTTP/2 is open.
    ///
    /// # Errors
    /// [`Unavailable::Full`], and [`Unavailable::TimedOut`] if there is none until `until`.
    pub(super) async fn permit(&mut self, until: Instant) -> Result<Permit, Unavailable> {
        let permit = self.permits.enter(self.asker, until).await;
        permit.map_err(|denied| {
            self.refused();
            match denied {
                Denied::Full => Unavailable::Full,
                Denied::Late => Unavailable::TimedOut,
            }
        })
    }

    /// Returns the places where the server listens, one at least, in the order in
    /// which they are to be tried. Only a name is waited for, 5 s at most.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub(super) async fn endpoints(&self) -> Result<Vec<Endpoint>, Unresolved> {
        self.server.endpoints(self.asker.host, self.tenant).await
    }

    /// Notes how the request ended, for the server's health.
    pub(crate) fn note(&mut self, outcome: Outcome) {
        let result = match outcome {
            Outcome::Answered(
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
            ) => UpstreamResult::Unavailable,
            Outcome::Answered(_) => UpstreamResult::Answered,
            Outcome::Unreachable => UpstreamResult::Unreachable,
            Outcome::NoAnswer => UpstreamResult::NoAnswer,
        };
        match result {
            UpstreamResult::Answered => self.server.succeeded(),
            _ => self.server.failed(),
        }
        self.count(result);
    }

    /// Notes that no connection came about for a reason that says nothing of the server.
    pub(super) fn refused(&mut self) {
        self.count(UpstreamResult::Refused);
    }

    /// Notes that no answer came, by a failure that was noted before.
    pub(super) fn unanswered(&mut self) {
        self.count(UpstreamResult::NoAnswer);
    }

    /// Notes a failure behind the answer's head.
    pub(super) fn broke_off(&self) {
        self.server.failed();
    }

    /// Takes a retry from the server's budget; false if there is none.
    pub(crate) fn may_retry(&self) -> bool {
        let (common, retries) = (&self.server.common, &self.server.retries);
        let may = retries.take(common.now());
        if may {
            common.metrics.upstream().retries.inc();
        }
        may
    }

    fn count(&mut self, result: UpstreamResult) {
        self.is_noted = true;
        self.server.common.metrics.upstream().request(result);
    }
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        self.server.ended(self.trial);
        if !self.is_noted {
            self.count(UpstreamResult::Abandoned);
        }
    }
}
