//! The server that was chosen for a request, until the request ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use tokio::time::Instant;

use super::health::{FailureKind, Site, Trials};
use super::limits::{Asker, Bounds, Denied, Slot, Slots};
use super::resolve::Unresolved;
use super::servers::Server;
use super::transport::Endpoint;
use crate::budget::Prefix;
use crate::metrics::UpstreamResult;
use crate::site::UpstreamOptions;

/// Server that a request goes to. The request counts as in flight until this is
/// dropped: after the last byte of the answer.
pub(crate) struct Chosen {
    index: usize,
    pub(super) server: Arc<Server>,
    /// Hash of the request's host.
    host: u64,
    client: Prefix,
    /// Sites that fail with the request's.
    site: Site,
    /// Rights to try the server, to be given back.
    trials: Trials,
    is_noted: bool,
}

/// How a request to a server ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    /// An answer's head came.
    Answered(StatusCode),
    /// No connection came about, whatever the site's settings: the name has no
    /// address, or the server refused the connection or let it wait.
    Unreachable,
    /// A connection came about, or might have with other settings: the site's time
    /// for it was short, or TLS or HTTP/2 failed.
    Unusable,
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
    pub(super) fn new(
        index: usize,
        server: Arc<Server>,
        host: u64,
        client: Prefix,
        site: Site,
        trials: Trials,
    ) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            index,
            server,
            host,
            client,
            site,
            trials,
            is_noted: false,
        }
    }

    /// Returns the place of the server in `Upstream::servers`.
    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// Returns the hash of the request's tenant.
    pub(super) fn tenant(&self) -> u64 {
        self.site.tenant
    }

    /// Returns the right to use one connection to the server, if none
    /// of its client prefix has to wait for one.
    pub(super) fn slot_at_once(&self, options: &UpstreamOptions) -> Option<Slot> {
        Slots::take(&self.server.slots, self.asker(), options.connections)
    }

    /// Waits for the right to use one connection to the server. To be held while a
    /// connection of HTTP/1.1 has this request, or as long as one of HTTP/2 is open.
    ///
    /// # Errors
    /// [`Unavailable::Full`], and [`Unavailable::TimedOut`] if there is none until `until`.
    pub(super) async fn slot(
        &mut self,
        options: &UpstreamOptions,
        until: Instant,
    ) -> Result<Slot, Unavailable> {
        let bounds = Bounds {
            connections: options.connections,
            waiting: options.waiting,
        };
        let slot = Slots::enter(&self.server.slots, self.asker(), bounds, until).await;
        slot.map_err(|denied| {
            self.refused();
            match denied {
                Denied::Full => Unavailable::Full,
                Denied::TimedOut => Unavailable::TimedOut,
            }
        })
    }

    fn asker(&self) -> Asker {
        Asker {
            tenant: self.site.tenant,
            host: self.host,
            client: self.client,
        }
    }

    /// Returns the places where the server listens, one at least, in the order in
    /// which they are to be tried. Only a name is waited for, 5 s at most.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub(super) async fn endpoints(&self) -> Result<Vec<Endpoint>, Unresolved> {
        self.server.endpoints(self.host, self.site.tenant).await
    }

    /// Notes that a connection came about. TLS, HTTP and the answer are the site's own
    /// matter.
    pub(super) fn reached(&self) {
        self.server.reached();
    }

    /// Notes how the request ended, for the server's health.
    pub(crate) fn note(&mut self, outcome: Outcome) {
        let server = &self.server;
        let (result, failure) = match outcome {
            Outcome::Answered(
                StatusCode::BAD_GATEWAY
                | StatusCode::SERVICE_UNAVAILABLE
                | StatusCode::GATEWAY_TIMEOUT,
            ) => (UpstreamResult::Unavailable, Some(FailureKind::Own)),
            Outcome::Answered(_) => (UpstreamResult::Answered, None),
            Outcome::Unreachable => (UpstreamResult::Unreachable, Some(FailureKind::Unreachable)),
            Outcome::Unusable => (UpstreamResult::Unreachable, Some(FailureKind::Own)),
            Outcome::NoAnswer => (UpstreamResult::NoAnswer, Some(FailureKind::Own)),
        };
        match failure {
            None => server.succeeded(self.site),
            Some(failure) => server.failed(failure, self.site),
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
        self.server.failed(FailureKind::Own, self.site);
    }

    /// Takes a retry from the server's budget; false if there is none for the tenant.
    pub(crate) fn may_retry(&self) -> bool {
        let (common, retries) = (&self.server.common, &self.server.retries);
        let may = retries.take(self.site.tenant, common.now());
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
        self.server.ended(self.site, self.trials);
        if !self.is_noted {
            self.count(UpstreamResult::Abandoned);
        }
    }
}
