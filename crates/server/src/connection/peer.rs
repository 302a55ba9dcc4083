//! Addresses of a connection.

use std::net::SocketAddr;

/// Addresses of a connection: the client's, and the listener's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    /// The address of the client; from the PROXY protocol's header if there is
    /// one.
    pub(crate) address: SocketAddr,
    /// Whether that is the client's address. Not so if the header said `UNKNOWN`: then it
    /// is the proxy's, and no field names the client.
    pub(crate) is_known: bool,
    /// The listening address as configured.
    pub(crate) listen: SocketAddr,
}

impl Peer {
    /// Returns the address that the client connected to. A listener with an address and a
    /// port of its own saves the system call of `ask`.
    pub(crate) fn server(&self, ask: impl FnOnce() -> Option<SocketAddr>) -> SocketAddr {
        let is_wildcard = self.listen.ip().is_unspecified() || self.listen.port() == 0;
        is_wildcard.then(ask).flatten().unwrap_or(self.listen)
    }
}
