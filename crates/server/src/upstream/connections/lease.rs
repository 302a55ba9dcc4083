//! Use of an upstream connection by one request.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Semaphore;

use super::pool::{Key, OpenStream, Opened};
use super::wakes::Wakes;
use crate::upstream::parts::Worker;
use crate::upstream::permits::Permit;
use crate::upstream::request::exchange::Exchange;

/// Connection in use by a request. Dropping the lease before it is released ends
/// a connection that no other request uses: of the request in flight, nothing is to go on.
pub(in crate::upstream) struct Lease {
    worker: Arc<Worker>,
    pub(in crate::upstream) key: Key,
    /// The connection; none once it is released.
    pub(in crate::upstream) connection: Option<Opened>,
    /// The connection served a request before.
    pub(in crate::upstream) is_reused: bool,
    /// Permit of a connection that no other request uses.
    pub(in crate::upstream) permit: Option<Permit>,
    /// Stream of HTTP/2, counted until it is dropped.
    _stream: Option<OpenStream>,
}

impl Lease {
    /// Makes the lease of a connection of HTTP/1.1 or FastCGI with its permit, or of a stream.
    pub(in crate::upstream) fn new(
        worker: &Arc<Worker>,
        key: &Key,
        mut connection: Opened,
        permit: Option<Permit>,
    ) -> Self {
        let (is_reused, stream) = match &mut connection {
            Opened::Http1(http1) => {
                http1.informational.begin();
                (http1.reused, None)
            }
            Opened::FastCgi(connection) => {
                connection.kept = None;
                (connection.reused, None)
            }
            Opened::Http2(shared) => (shared.reused, Some(shared.streams.open())),
        };
        Self {
            worker: Arc::clone(worker),
            key: key.clone(),
            connection: Some(connection),
            is_reused,
            permit,
            _stream: stream,
        }
    }

    /// Returns whether the connection ended without a byte of the answer.
    pub(in crate::upstream) fn ended_unanswered(&self) -> bool {
        match &self.connection {
            Some(Opened::Http1(connection)) => !connection.informational.is_answered(),
            Some(Opened::FastCgi(connection)) => !connection.is_answered,
            Some(Opened::Http2(shared)) => shared.sender.is_closed(),
            None => false,
        }
    }

    /// Returns what the server sent too much of, if that ended a connection of HTTP/2.
    pub(in crate::upstream) fn flood(&self) -> Option<&'static str> {
        match &self.connection {
            Some(Opened::Http2(shared)) => shared.streams.flood.get().copied(),
            Some(Opened::Http1(_) | Opened::FastCgi(_)) | None => None,
        }
    }

    /// Returns whether a failure of this request is one of the server's own. A connection
    /// that ended for a flood of the server is one failure, not one of each stream.
    pub(in crate::upstream) fn blames_server(&self) -> bool {
        match &self.connection {
            Some(Opened::Http2(shared)) if self.flood().is_some() => shared.streams.blame(),
            _ => true,
        }
    }

    /// Returns the wakes of an HTTP/1.1 connection.
    pub(in crate::upstream) fn wakes(&self) -> Option<&Wakes> {
        match &self.connection {
            Some(Opened::Http1(connection)) => Some(&connection.wakes),
            Some(Opened::Http2(_) | Opened::FastCgi(_)) | None => None,
        }
    }

    /// Lets the request's body give way where its backend has no connection left.
    pub(in crate::upstream) fn watch(&mut self, body: &Arc<Exchange>) {
        if let Some(permit) = &mut self.permit {
            permit.watch(body);
        }
    }

    /// Ends the use after a complete answer. The connection is kept for `keep`; one of
    /// FastCGI if `kept` has room.
    pub(in crate::upstream) fn release(&mut self, keep: Duration, kept: &Arc<Semaphore>) {
        let Some(mut connection) = self.connection.take() else {
            return;
        };
        match &mut connection {
            Opened::Http1(connection) => connection.rest(),
            Opened::FastCgi(connection) => match Arc::clone(kept).try_acquire_owned() {
                Ok(kept) => (connection.reused, connection.kept) = (true, Some(kept)),
                Err(_) => return,
            },
            Opened::Http2(_) => return,
        }
        self.worker.pools.give_back(&self.key, connection, keep);
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if let Some(Opened::Http1(connection)) = &self.connection {
            connection.task.abort();
        }
    }
}
