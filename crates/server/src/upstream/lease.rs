//! Use of an upstream connection by one request.

use std::sync::Arc;
use std::time::Duration;

use super::exchange::Exchange;
use super::parts::Worker;
use super::permits::Permit;
use super::pool::{Http1, Key, OpenStream, Shared};
use super::wakes::Wakes;

/// Connection in use by a request. Dropping the lease before it is released ends
/// an HTTP/1.1 connection: of the request in flight, nothing is to go on.
pub(super) struct Lease {
    worker: Arc<Worker>,
    pub(super) key: Key,
    pub(super) connection: Leased,
    /// The connection served a request before.
    pub(super) is_reused: bool,
    /// Permit of an HTTP/1.1 connection.
    pub(super) permit: Option<Permit>,
}

pub(super) enum Leased {
    Http1(Box<Http1>),
    Http2(
        Shared,
        #[expect(dead_code, reason = "counted until it is dropped")] OpenStream,
    ),
    /// Released.
    None,
}

impl Lease {
    pub(super) fn http1(
        worker: &Arc<Worker>,
        key: &Key,
        connection: Box<Http1>,
        permit: Permit,
    ) -> Self {
        connection.informational.begin();
        Self {
            worker: Arc::clone(worker),
            key: key.clone(),
            is_reused: connection.reused,
            connection: Leased::Http1(connection),
            permit: Some(permit),
        }
    }

    /// Makes the lease of a stream. `is_reused` says that another request opened the
    /// connection.
    pub(super) fn http2(worker: &Arc<Worker>, key: &Key, shared: Shared, is_reused: bool) -> Self {
        let stream = shared.streams.open();
        Self {
            worker: Arc::clone(worker),
            key: key.clone(),
            is_reused,
            connection: Leased::Http2(shared, stream),
            permit: None,
        }
    }

    /// Returns whether the connection ended without a byte of the answer.
    pub(super) fn ended_unanswered(&self) -> bool {
        match &self.connection {
            Leased::Http1(connection) => !connection.informational.is_answered(),
            Leased::Http2(shared, _) => shared.sender.is_closed(),
            Leased::None => false,
        }
    }

    /// Returns what the server sent too much of, if that ended a connection of HTTP/2.
    pub(super) fn flood(&self) -> Option<&'static str> {
        match &self.connection {
            Leased::Http2(shared, _) => shared.streams.flood.get().copied(),
            Leased::Http1(_) | Leased::None => None,
        }
    }

    /// Returns whether a failure of this request is one of the server's own. A connection
    /// that ended for a flood of the server is one failure, not one of each stream.
    pub(super) fn blames_server(&self) -> bool {
        match &self.connection {
            Leased::Http2(shared, _) if self.flood().is_some() => shared.streams.blame(),
            _ => true,
        }
    }

    /// Returns the wakes of an HTTP/1.1 connection.
    pub(super) fn wakes(&self) -> Option<&Wakes> {
        match &self.connection {
            Leased::Http1(connection) => Some(&connection.wakes),
            Leased::Http2(..) | Leased::None => None,
        }
    }

    /// Lets the request's body give way where its backend has no connection left.
    pub(super) fn watch(&mut self, body: &Arc<Exchange>) {
        if let Some(permit) = &mut self.permit {
            permit.watch(body);
        }
    }

    /// Ends the use after a complete answer. The connection is kept for `keep`.
    pub(super) fn release(&mut self, keep: Duration) {
        if let Leased::Http1(connection) = std::mem::replace(&mut self.connection, Leased::None) {
            self.worker.pools.give_back(&self.key, connection, keep);
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Leased::Http1(connection) = &self.connection {
            connection.task.abort();
        }
    }
}
