//! Facts of a handshake that a script sees.

use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

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
    /// Lists of the ClientHello.
    pub offers: Arc<dyn Offers>,
}

/// Lists of a ClientHello, which few scripts read: the server's own ones, not copies.
pub trait Offers: fmt::Debug + Send + Sync {
    /// Returns the protocols that the client offers (ALPN).
    fn alpn(&self) -> &[Box<[u8]>];

    /// Returns the signature schemes that the client offers, as IANA numbers.
    fn signature_schemes(&self) -> &[u16];

    /// Returns the cipher suites that the client offers, as IANA numbers.
    fn cipher_suites(&self) -> &[u16];

    /// Returns the groups that the client offers, as IANA numbers.
    fn named_groups(&self) -> &[u16];
}

/// Lists that are made up, for tests and for the command that tries a script.
#[derive(Clone, Debug, Default)]
pub struct Lists {
    /// Protocols (ALPN).
    pub alpn: Vec<Box<[u8]>>,
    /// Signature schemes.
    pub signature_schemes: Vec<u16>,
    /// Cipher suites.
    pub cipher_suites: Vec<u16>,
    /// Groups.
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
            offers: Arc::new(Lists::default()),
        }
    }
}

impl Offers for Lists {
    fn alpn(&self) -> &[Box<[u8]>] {
        &self.alpn
    }

    fn signature_schemes(&self) -> &[u16] {
        &self.signature_schemes
    }

    fn cipher_suites(&self) -> &[u16] {
        &self.cipher_suites
    }

    fn named_groups(&self) -> &[u16] {
        &self.named_groups
    }
}
