//! Reads the first bytes of a connection, up to the end of the ClientHello.

use std::future::poll_fn;

use rustls::CipherSuite;
use rustls::server::{Accepted, Acceptor, ClientHello};
use sekisho_certs::HostName;
use tokio::net::TcpStream;

use crate::tls::receive;

/// ClientHello, and the parts that the lookup needs. Boxed: rustls's part has
/// more than 1 KB, which each step would copy.
pub(crate) struct Hello {
    /// Continues the handshake once a configuration is chosen.
    pub(crate) accepted: Accepted,
    /// Bytes received after the ClientHello; usually none.
    pub(crate) rest: Vec<u8>,
    pub(crate) sni: Sni,
    /// Whether ALPN is exactly `acme-tls/1` (RFC 8737, section 3).
    pub(crate) challenge: bool,
    /// Whether a TLS 1.3 cipher suite is offered.
    pub(crate) tls13: bool,
}

/// The server name of a ClientHello (RFC 6066, section 3).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Sni {
    /// No extension, or an IP address, which is not allowed there.
    None,
    Name(HostName),
    /// A name that no host here can have.
    Impossible,
}

/// Reasons why a connection has no valid ClientHello.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// The first bytes are neither TLS nor HTTP, or they are an alert.
    NotTls,
    /// A TLS record of a type that can't come first.
    NoHello,
    /// A TLS message that breaks the protocol, with the alert to send.
    Malformed(Vec<u8>, rustls::Error),
    /// More than [`HELLO_LIMIT`] bytes.
    TooLong,
    /// The client closed the connection.
    Gone,
}

/// Reads until the ClientHello is complete. The caller bounds the time.
///
/// # Errors
/// [`Unfit`] if something else came.
pub(crate) async fn read(socket: &mut TcpStream) -> Result<Box<Hello>, Unfit> {
    let mut reading = Reading::default();
    loop {
        let step = poll_fn(|cx| receive(socket, cx, |bytes| reading.take(bytes))).await;
        if let Some(hello) = step.map_err(|_| Unfit::Gone)?? {
            return Ok(hello);
        }
    }
}

/// Parses a ClientHello in pieces of this size and describes the result.
#[cfg(fuzzing)]
pub fn client_hello(bytes: &[u8], piece: usize) -> String {
    let mut reading = Reading::default();
    for piece in bytes.chunks(piece) {
        match reading.take(piece) {
            Ok(None) => {}
            Ok(Some(hello)) => {
                return format!("{:?} {} {}", hello.sni, hello.challenge, hello.tls13);
            }
            Err(unfit) => return format!("{unfit:?}"),
        }
    }
    "incomplete".to_owned()
}

/// State of a ClientHello that is being read.
#[derive(Default)]
struct Reading {
    acceptor: Acceptor,
    /// The first bytes of a connection that does not begin with a handshake
    /// record.
    method: Vec<u8>,
    received: usize,
}

/// The ClientHello, or None if more bytes must come before it is complete.
type Step = Result<Option<Box<Hello>>, Unfit>;

impl Reading {
    fn take(&mut self, bytes: &[u8]) -> Step {
        let first = bytes.first().ok_or(Unfit::Gone)?;
        if !self.method.is_empty() || self.received == 0 && *first != TLS_HANDSHAKE {
            return self.take_method(bytes);
        }
        let room = HELLO_LIMIT - self.received;
        let (within, beyond) = bytes.split_at(room.min(bytes.len()));
        self.received += within.len();
        let mut hello = self.feed(within)?;
        match &mut hello {
            // Early data may follow in the same segment. It does not count
            // towards the limit.
            Some(hello) => hello.rest.extend_from_slice(beyond),
            None if !beyond.is_empty() => return Err(Unfit::TooLong),
            None => {}
        }
        Ok(hello)
    }

    fn take_method(&mut self, bytes: &[u8]) -> Step {
        self.method.extend(bytes.iter().take(LONGEST_METHOD));
        let seen = self.method.as_slice();
        if METHODS.iter().any(|method| seen.starts_with(method)) {
            Err(Unfit::PlainHttp)
        } else if METHODS.iter().any(|method| method.starts_with(seen)) {
            Ok(None)
        } else {
            match seen {
                [kind] if NO_HELLO.contains(kind) => Ok(None),
                [kind, TLS_MAJOR, ..] if NO_HELLO.contains(kind) => Err(Unfit::NoHello),
                _ => Err(Unfit::NotTls),
            }
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Step {
        while !bytes.is_empty() {
            if let Err(error) = self.acceptor.read_tls(&mut bytes) {
                // rustls has its own bound, which is lower for non-handshake
                // records.
                tracing::debug!(%error, "ClientHello too long");
                return Err(Unfit::TooLong);
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    return Ok(Some(Box::new(Hello::new(accepted, bytes.to_vec()))));
                }
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    alert.write_all(&mut bytes).expect("a Vec takes all");
                    return Err(Unfit::Malformed(bytes, error));
                }
            }
        }
        Ok(None)
    }
}

impl Hello {
    fn new(accepted: Accepted, rest: Vec<u8>) -> Self {
        let hello = accepted.client_hello();
        let sni = match hello.server_name().map(HostName::parse) {
            None => Sni::None,
            Some(Ok(name)) => Sni::Name(name),
            Some(Err(_)) => Sni::Impossible,
        };
        let challenge = is_challenge(&hello);
        let tls13 = hello.cipher_suites().iter().any(is_tls13);
        Self {
            accepted,
            rest,
            sni,
            challenge,
            tls13,
        }
    }
}

fn is_challenge(hello: &ClientHello<'_>) -> bool {
    hello
        .alpn()
        .is_some_and(|protocols| protocols.eq([ACME_TLS]))
}

/// Tells TLS 1.3 suites: 0x1301 to 0x1305 (RFC 8446, appendix B.4).
fn is_tls13(suite: &CipherSuite) -> bool {
    (0x1301..=0x1305).contains(&u16::from(*suite))
}

/// Record type that a TLS connection begins with (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// Record types that can't come first: change_cipher_spec, application_data,
/// heartbeat (RFC 6520). An alert (0x15) gets no answer (RFC 8446, section
/// 6.2).
const NO_HELLO: [u8; 3] = [0x14, 0x17, 0x18];
/// The first byte of a record's version, from SSL 3.0 to TLS 1.3.
const TLS_MAJOR: u8 = 3;

/// ALPN protocol of TLS-ALPN-01 challenges (RFC 8737, section 4).
pub(crate) const ACME_TLS: &[u8] = b"acme-tls/1";

/// Bytes that a client may send before its ClientHello is complete. Clients
/// send 200 to 2,000; several post-quantum key shares add up to 8,000.
pub(crate) const HELLO_LIMIT: usize = 16 * 1024;

const METHODS: [&[u8]; 10] = [
    b"GET ",
    b"HEAD ",
    b"POST ",
    b"PUT ",
    b"DELETE ",
    b"CONNECT ",
    b"OPTIONS ",
    b"TRACE ",
    b"PATCH ",
    b"PRI * HTTP/2",
];
const LONGEST_METHOD: usize = 12;

#[cfg(test)]
mod tests;
