//! The ClientHello that a script decides about.

use std::sync::Arc;

use sekisho_certs::HostName;
use sekisho_certs::hook::ClientFacts;

/// ClientHello and addresses of a connection.
#[derive(Clone, Debug)]
pub struct Hello {
    /// Server name; none if the client sent none, or an IP address.
    pub server_name: Option<HostName>,
    /// The server's own facts, not copies: few scripts read the lists.
    pub facts: Arc<ClientFacts>,
}
