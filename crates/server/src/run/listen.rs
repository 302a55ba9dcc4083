//! Binds the listening sockets.

use std::io;
use std::net::{SocketAddr, TcpListener};

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;

/// A listening address, with a socket for each worker.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Address as configured.
    pub(crate) configured: SocketAddr,
    /// Address with the port that the system chose.
    pub(crate) bound: SocketAddr,
    pub(crate) sockets: Vec<TcpListener>,
}

impl Listening {
    /// Binds `address` once for each of `workers`. With port 0 the first one
    /// chooses the port.
    pub(crate) fn bind(address: SocketAddr, workers: usize) -> Result<Self, Error> {
        let failed = |source| Error::Bind { address, source };
        let shared = workers > 1;
        if shared && address.port() != 0 {
            // SO_REUSEPORT would let a second server bind the same address and
            // take half of the connections. A bind without it first detects
            // that server.
            drop(listen(address, false).map_err(failed)?);
        }
        let first = listen(address, shared).map_err(failed)?;
        let bound = first.local_addr().map_err(failed)?;
        let mut sockets = vec![first];
        for _ in 1..workers {
            sockets.push(listen(bound, shared).map_err(failed)?);
        }
        Ok(Self {
            configured: address,
            bound,
            sockets,
        })
    }
}

fn listen(address: SocketAddr, shared: bool) -> io::Result<TcpListener> {
    let socket = Socket::new(
        Domain::for_address(address),
        Type::STREAM,
        Some(Protocol::TCP),
    )?;
    socket.set_nonblocking(true)?;
    // Without SO_REUSEADDR, connections of an earlier process in TIME_WAIT
    // would block the bind.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        // Without it, `[::]:443` would take `0.0.0.0:443` as well.
        socket.set_only_v6(true)?;
    }
    // Accepted sockets inherit both options.
    socket.set_tcp_nodelay(true)?;
    // The kernel would buffer up to `net.ipv4.tcp_wmem` for a client that reads
    // nothing, 4 MiB by default. Systems without the option serve too.
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Bytes that a socket takes before its client's window is open for them. A
/// congestion window may be larger: what is under way does not count.
const UNSENT: u32 = 512 << 10;

/// Connections that wait to be accepted; `net.core.somaxconn` may lower it.
const BACKLOG: i32 = 4096;
