//! The first bytes of a connection, up to the end of the ClientHello.

use std::future::poll_fn;

use rustls::CipherSuite;
use rustls::server::{Accepted, Acceptor, ClientHello};
use sekisho_certs::HostName;
use tokio::net::TcpStream;

use crate::tls::receive;

/// A ClientHello, and what the lookup needs of it. Boxed: rustls's part has
/// more than a kilobyte, which each step would copy.
pub(crate) struct Hello {
    /// Continues the handshake once a configuration is chosen.
    pub(crate) accepted: Accepted,
    /// Received behind it; usually nothing.
    pub(crate) rest: Vec<u8>,
    pub(crate) sni: Sni,
    /// ALPN is exactly `acme-tls/1` (RFC 8737, section 3).
    pub(crate) challenge: bool,
    /// A TLS 1.3 cipher suite is among the offered ones.
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

/// Why there is no ClientHello.
#[derive(Debug)]
pub(crate) enum Unfit {
    /// The client speaks HTTP without TLS.
    PlainHttp,
    /// By its first byte neither TLS nor HTTP.
    NotTls,
    /// TLS that breaks its rules, with the alert that says so.
    Malformed(Vec<u8>, rustls::Error),
    /// More than [`HELLO_LIMIT`] bytes.
    TooLong,
    /// The client went away.
    Gone,
}

/// Reads until the ClientHello is complete. The caller sets the deadline.
///
/// # Errors
/// What else came.
pub(crate) async fn read(socket: &mut TcpStream) -> Result<Box<Hello>, Unfit> {
    let mut reading = Reading::default();
    loop {
        let step = poll_fn(|cx| receive(socket, cx, |bytes| reading.take(bytes))).await;
        match step {
            Ok(Step::More) => {}
            Ok(Step::Done(hello)) => return Ok(hello),
            Ok(Step::Unfit(unfit)) => return Err(unfit),
            Err(_) => return Err(Unfit::Gone),
        }
    }
}

/// What a ClientHello in pieces of this size comes to, in words.
#[cfg(fuzzing)]
pub fn client_hello(bytes: &[u8], piece: usize) -> String {
    let mut reading = Reading::default();
    for piece in bytes.chunks(piece) {
        match reading.take(piece) {
            Step::More => {}
            Step::Done(hello) => {
                return format!("{:?} {} {}", hello.sni, hello.challenge, hello.tls13);
            }
            Step::Unfit(unfit) => return format!("{unfit:?}"),
        }
    }
    "incomplete".to_owned()
}

/// What has been read so far.
#[derive(Default)]
struct Reading {
    acceptor: Acceptor,
    /// The first bytes, while they may be those of an HTTP method.
    method: Vec<u8>,
    received: usize,
}

enum Step {
    More,
    Done(Box<Hello>),
    Unfit(Unfit),
}

impl Reading {
    fn take(&mut self, bytes: &[u8]) -> Step {
        let Some(first) = bytes.first() else {
            return Step::Unfit(Unfit::Gone);
        };
        if !self.method.is_empty() || self.received == 0 && *first != TLS_HANDSHAKE {
            return self.take_method(bytes);
        }
        self.received += bytes.len();
        if self.received > HELLO_LIMIT {
            return Step::Unfit(Unfit::TooLong);
        }
        self.feed(bytes)
    }

    fn take_method(&mut self, bytes: &[u8]) -> Step {
        self.method.extend(bytes.iter().take(LONGEST_METHOD));
        let seen = self.method.as_slice();
        if METHODS.iter().any(|method| seen.starts_with(method)) {
            Step::Unfit(Unfit::PlainHttp)
        } else if METHODS.iter().any(|method| method.starts_with(seen)) {
            Step::More
        } else {
            Step::Unfit(Unfit::NotTls)
        }
    }

    fn feed(&mut self, mut bytes: &[u8]) -> Step {
        while !bytes.is_empty() {
            if let Err(error) = self.acceptor.read_tls(&mut bytes) {
                // rustls's own bound, below ours for what is no handshake.
                tracing::debug!(%error, "no room for the ClientHello");
                return Step::Unfit(Unfit::TooLong);
            }
            match self.acceptor.accept() {
                Ok(None) => {}
                Ok(Some(accepted)) => {
                    return Step::Done(Box::new(Hello::new(accepted, bytes.to_vec())));
                }
                Err((error, mut alert)) => {
                    let mut bytes = Vec::new();
                    alert.write_all(&mut bytes).expect("a Vec takes all");
                    return Step::Unfit(Unfit::Malformed(bytes, error));
                }
            }
        }
        Step::More
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
        .is_some_and(|protocols| protocols.eq([b"acme-tls/1".as_slice()]))
}

/// 0x1301 to 0x1305 (RFC 8446, appendix B.4).
fn is_tls13(suite: &CipherSuite) -> bool {
    (0x1301..=0x1305).contains(&u16::from(*suite))
}

/// The record type that TLS begins with (RFC 8446, section 5.1).
const TLS_HANDSHAKE: u8 = 0x16;

/// What a client may send before its ClientHello is complete. rustls takes a
/// handshake message of as much; real ones have 200 to 2,000 bytes.
pub(crate) const HELLO_LIMIT: usize = 64 * 1024;

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
