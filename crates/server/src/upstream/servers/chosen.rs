//! The server that was chosen for a request, until the request ends.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use http::StatusCode;
use sekisho_gate::Denied;
use tokio::time::Instant;

use super::Server;
use super::ejection::Trial;
use super::resolve::Unresolved;
use crate::observe::metrics::UpstreamResult;
use crate::upstream::connections::transport::Endpoint;
use crate::upstream::failure::Failure;
use crate::upstream::owned::Owner;
use crate::upstream::permits::{Asker, Permit, Permits};

/// Server that a request goes to. The request counts as in flight until this is
/// dropped: after the last byte of the answer.
pub(crate) struct Chosen {
    /// Index of the server in `Upstream::servers`.
    pub(in crate::upstream) index: usize,
    pub(in crate::upstream) server: Arc<Server>,
    permits: Arc<Permits>,
    pub(in crate::upstream) owner: Owner,
    /// Hash of the request's tenant.
    pub(in crate::upstream) tenant: u64,
    asker: Asker,
    /// Permit to try the server, to be given back.
    trial: Trial,
    is_noted: bool,
}

impl Chosen {
    /// Makes the use of a server by an owner, for a tenant's host and a client.
    pub(in crate::upstream) fn new(
        index: usize,
        server: Arc<Server>,
        owner: Owner,
        tenant: u64,
        asker: Asker,
        trial: Trial,
    ) -> Self {
        server.in_flight.fetch_add(1, Ordering::Relaxed);
        Self {
            index,
            permits: server.permits.of(tenant),
            server,
            owner,
            tenant,
            asker,
            trial,
            is_noted: false,
        }
    }

    /// Returns the permit to use one connection to the server, if none
    /// of its client prefix has to wait for one.
    pub(in crate::upstream) fn permit_at_once(&self) -> Option<Permit> {
        self.permits.try_enter(self.asker)
    }

    /// Waits for the permit to use one connection to the server. To be held while a
    /// connection of HTTP/1.1 has this request, or as long as one of HTTP/2 is open.
    ///
    /// # Errors
    /// [`Failure::TooManyWait`], and [`Failure::NoneFree`] if there is none until `until`.
    pub(in crate::upstream) async fn permit(&self, until: Instant) -> Result<Permit, Failure> {
        let permit = self.permits.enter(self.asker, until).await;
        permit.map_err(|denied| match denied {
            Denied::Full => Failure::TooManyWait,
            Denied::Late => Failure::NoneFree,
        })
    }

    /// Returns the server's endpoints, one at least, in the order in
    /// which they are to be tried. Only a name is waited for, 5 s at most.
    ///
    /// # Errors
    /// [`Unresolved`].
    pub(in crate::upstream) async fn endpoints(&self) -> Result<Vec<Endpoint>, Unresolved> {
        self.server.endpoints(self.asker.host, self.tenant).await
    }

    /// Notes an answer, for the server's health.
    pub(crate) fn answered(&mut self, status: StatusCode) {
        match status {
            StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => self.failed(UpstreamResult::Unavailable),
            _ => {
                self.server.succeeded();
                self.count(UpstreamResult::Answered);
            }
        }
    }

    /// Notes a failure of the server. A reused connection that closed is none.
    pub(in crate::upstream) fn failed(&mut self, result: UpstreamResult) {
        self.server.failed();
        self.count(result);
    }

    /// Counts how the request ended. By itself, that says nothing of the server.
    pub(in crate::upstream) fn count(&mut self, result: UpstreamResult) {
        self.is_noted = true;
        self.server.common.metrics.upstream().request(result);
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
}

impl Drop for Chosen {
    fn drop(&mut self) {
        self.server.in_flight.fetch_sub(1, Ordering::Relaxed);
        let now = || self.server.common.now();
        self.server.ejection.give_back(self.trial, now);
        if !self.is_noted {
            self.count(UpstreamResult::Abandoned);
        }
    }
}
