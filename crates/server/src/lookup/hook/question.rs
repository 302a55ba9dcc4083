//! Question to a hook: facts of a ClientHello.

use std::net::SocketAddr;
use std::sync::Arc;

use rustls::server::ClientHello;
use sekisho_certs::HostName;
use sekisho_certs::hook::ClientFacts;
use tokio::time::Instant;

/// Reads the facts of a ClientHello.
pub(crate) fn facts(hello: &ClientHello<'_>, client: SocketAddr, local: SocketAddr) -> ClientFacts {
    let mut room = MAX_ALPN;
    let fitting = |protocol: &&[u8]| {
        let left = room.checked_sub(protocol.len());
        room = left.unwrap_or(0);
        left.is_some()
    };
    let alpn = hello.alpn().map_or_else(Box::default, |protocols| {
        let protocols = protocols.take(MAX_LIST).take_while(fitting);
        protocols.map(Box::from).collect()
    });
    ClientFacts {
        client,
        local,
        alpn,
        signature_schemes: first(hello.signature_schemes()),
        cipher_suites: first(hello.cipher_suites()),
        named_groups: first(hello.named_groups().unwrap_or_default()),
    }
}

fn first<T: Copy + Into<u16>>(list: &[T]) -> Box<[u16]> {
    list.iter()
        .take(MAX_LIST)
        .map(|&entry| entry.into())
        .collect()
}

/// Question to a [`Hook`](super::Hook).
#[derive(Clone, Debug)]
pub struct Question {
    /// The server name; none if the client sent none.
    pub server_name: Option<HostName>,
    /// Facts of the ClientHello.
    pub facts: Arc<ClientFacts>,
    /// When the server stops waiting for the answer.
    pub deadline: Instant,
}

/// Entries of a list that a hook sees. Browsers send up to 20.
const MAX_LIST: usize = 64;
/// Bytes of all protocols that a hook sees.
const MAX_ALPN: usize = 255;
