//! PROXY protocol, versions 1 and 2 (haproxy.org, proxy-protocol.txt): a proxy
//! begins a connection with a header that names its client.
//!
//! [`admit`] reads the header of connections from `[listen] proxy`, [`encode`]
//! makes the one for an upstream.

mod encode;
mod parse;

use std::net::SocketAddr;

use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::connection::peer::Peer;
use crate::observe::metrics::{Metrics, ProxyHeaderResult};
use crate::tls::refuse::refuse;
pub(crate) use encode::{encode, encode_local};
use parse::parse;
#[cfg(fuzzing)]
pub use parse::proxy_header;

/// Source of a connection, as its header says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The address of the client.
    Client(SocketAddr),
    /// The proxy speaks for itself, as in a health check (version 2, `LOCAL`).
    Local,
    /// The proxy does not know, or the client has no IP address.
    Unknown,
}

/// Reason why a connection has no header.
#[derive(Debug)]
struct Unfit {
    /// Result that is counted.
    result: ProxyHeaderResult,
    /// Text for the log, in which `Closed` has no line.
    why: &'static str,
}

/// Reads the header that each connection of a peer in `[listen] proxy` begins
/// with, before `deadline`. Returns the addresses of the connection, or None if
/// it is closed:
///
/// 1. a header that names the client: the client's address;
/// 2. a header without an address: the peer's own;
/// 3. no byte at all, or none after `LOCAL`: closed, no failure and no line;
/// 4. else closed, with a debug line.
///
/// All of them are counted.
pub(crate) async fn admit(
    mut socket: TcpStream,
    peer: Peer,
    deadline: Instant,
    metrics: &Metrics,
) -> Option<(TcpStream, Peer)> {
    let read = timeout_at(deadline, read(&mut socket)).await;
    let read = read.unwrap_or(Err(LATE));
    let result = match &read {
        Ok(Source::Client(_)) => ProxyHeaderResult::Client,
        Ok(Source::Local) => ProxyHeaderResult::Local,
        Ok(Source::Unknown) => ProxyHeaderResult::Unknown,
        Err(unfit) => unfit.result,
    };
    metrics.proxy_header(result);
    let why = match read {
        Ok(Source::Client(address)) => return Some((socket, Peer { address, ..peer })),
        Ok(Source::Unknown) => {
            let is_known = false;
            return Some((socket, Peer { is_known, ..peer }));
        }
        Ok(Source::Local) => {
            // A health check that only connects ends here.
            let first = timeout_at(deadline, socket.peek(&mut [0])).await;
            return matches!(first, Ok(Ok(1..))).then_some((socket, peer));
        }
        Err(Unfit {
            result: ProxyHeaderResult::Closed,
            ..
        }) => return None,
        Err(unfit) => unfit.why,
    };
    tracing::debug!(
        peer = %peer.address,
        result = result.as_str(),
        "PROXY protocol header refused: {why}"
    );
    refuse(socket, &[]).await;
    None
}

/// Reads the header and nothing after it. The caller bounds the time.
async fn read(socket: &mut TcpStream) -> Result<Source, Unfit> {
    let malformed = |why| Unfit {
        result: ProxyHeaderResult::Malformed,
        why,
    };
    let mut seen = Vec::new();
    let mut piece = [0; PIECE];
    loop {
        // What follows the header belongs to TLS or HTTP: bytes are taken from
        // the socket once it is known that they are part of the header.
        let arrived = socket.peek(&mut piece).await.unwrap_or(0);
        if arrived == 0 {
            return Err(if seen.is_empty() { CLOSED } else { CUT });
        }
        let before = seen.len();
        seen.extend_from_slice(&piece[..arrived]);
        let header = parse(&seen).map_err(malformed)?;
        let taken = header.map_or(arrived, |(_, length)| length - before);
        let taken = socket.read_exact(&mut piece[..taken]).await;
        taken.map_err(|_| CUT)?;
        if let Some((source, _)) = header {
            return Ok(source);
        }
    }
}

const CLOSED: Unfit = Unfit {
    result: ProxyHeaderResult::Closed,
    why: "",
};
const CUT: Unfit = Unfit {
    result: ProxyHeaderResult::Cut,
    why: "the connection ended in it",
};
const LATE: Unfit = Unfit {
    result: ProxyHeaderResult::TimedOut,
    why: "it did not come in time",
};

/// Bytes that are read at once. Headers without TLVs have at most 107.
const PIECE: usize = 256;
