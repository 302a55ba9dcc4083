//! Facts of a handshake that a script sees.

use std::net::SocketAddr;

use sekisho_certs::HostName;

/// ClientHello and addresses of a connection.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Server name; none if the client sent none, or an IP address.
    pub server_name: Option<HostName>,
    /// Address of the client; from the PROXY protocol's header if there is one.
    pub client_addr: SocketAddr,
    /// Listening address.
    pub local_addr: SocketAddr,
    /// Protocols that the client offers (ALPN).
    pub alpn: Vec<Vec<u8>>,
    /// Signature schemes that the client offers, as IANA numbers.
    pub signature_schemes: Vec<u16>,
    /// Cipher suites that the client offers, as IANA numbers.
    pub cipher_suites: Vec<u16>,
    /// Groups that the client offers, as IANA numbers.
    pub named_groups: Vec<u16>,
}

impl Hello {
    /// Returns a hello with a server name and nothing else, for tests and for the
    /// command that tries a script.
    #[must_use]
    pub fn of(server_name: Option<HostName>, client_addr: SocketAddr) -> Self {
        Self {
            server_name,
            client_addr,
            local_addr: SocketAddr::from(([127, 0, 0, 1], 443)),
            alpn: Vec::new(),
            signature_schemes: Vec::new(),
            cipher_suites: Vec::new(),
            named_groups: Vec::new(),
        }
    }
}
