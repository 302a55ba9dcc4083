//! Errors of a server that can't be built or run.

use std::io;
use std::net::SocketAddr;

/// Reasons why a server can't be built or run.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A listening address can't be bound.
    #[error("can't listen on {address}: {source}")]
    Bind {
        /// The configured address.
        address: SocketAddr,
        /// The error of the system.
        source: io::Error,
    },
    /// A worker could not start, or failed while it ran.
    #[error("a worker can't run: {0}")]
    Worker(#[source] io::Error),
    /// No ticket keys are available; the text says why and what to do.
    #[error("{0}")]
    Tickets(String),
}
