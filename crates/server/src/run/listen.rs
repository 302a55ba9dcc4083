//! Binds the listening sockets, or takes those of the process before.

use std::collections::HashSet;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;

use socket2::{Domain, Protocol, Socket, Type};

use crate::error::Error;

/// Listening sockets that another process or the service manager gave, by the address as
/// it was configured.
#[derive(Debug, Default)]
pub struct Inherited {
    sockets: Vec<(SocketAddr, TcpListener)>,
    /// Ports of all sockets, those that were taken included.
    ports: HashSet<u16>,
}

impl Inherited {
    /// Adds a socket of this address.
    ///
    /// # Errors
    /// If the descriptor is no socket that listens for TCP.
    pub fn add(&mut self, configured: SocketAddr, socket: OwnedFd) -> io::Result<()> {
        let socket = Socket::from(socket);
        let address = socket.local_addr()?.as_socket();
        let Some(address) = address.filter(|_| socket.is_listener().unwrap_or(false)) else {
            return Err(io::Error::other("it is no socket that listens for TCP"));
        };
        set_options(&socket)?;
        self.ports.insert(address.port());
        self.sockets.push((configured, socket.into()));
        Ok(())
    }

    /// Returns the addresses whose sockets were not taken.
    pub(crate) fn unused(&self) -> impl Iterator<Item = SocketAddr> + '_ {
        self.sockets.iter().map(|(address, _)| *address)
    }

    /// Takes all sockets of an address.
    fn take(&mut self, configured: SocketAddr) -> Vec<TcpListener> {
        let of_address = |(address, _): &mut (SocketAddr, _)| *address == configured;
        let taken = self.sockets.extract_if(.., of_address);
        taken.map(|(_, socket)| socket).collect()
    }
}

/// A listening address, with one socket or more for each worker.
#[derive(Debug)]
pub(crate) struct Listening {
    /// Address as configured.
    pub(crate) configured: SocketAddr,
    /// Address with the port that the system chose.
    pub(crate) bound: SocketAddr,
    pub(crate) sockets: Vec<TcpListener>,
}

impl Listening {
    /// Takes the inherited sockets of `address`, and binds one for each of `workers` that
    /// lacks one. With port 0 the first one chooses the port. More sockets than workers
    /// stay: the kernel resets connections that wait in a socket that is closed.
    pub(crate) fn bind(
        address: SocketAddr,
        workers: usize,
        inherited: &mut Inherited,
    ) -> Result<Self, Error> {
        let failed = |source| Error::Bind { address, source };
        let mut sockets = inherited.take(address);
        if sockets.is_empty() {
            // An address that overlaps one of the process before, such as `[::]:443`, is bound
            // beside it.
            if address.port() != 0 && !inherited.ports.contains(&address.port()) {
                // SO_REUSEPORT would let a second server bind the same address and
                // take half of the connections. A bind without it first detects
                // that server.
                drop(listen(address, false).map_err(failed)?);
            }
            sockets.push(listen(address, true).map_err(failed)?);
        }
        let bound = sockets[0].local_addr().map_err(failed)?;
        let given = sockets.len();
        while sockets.len() < workers {
            let another = match listen(bound, true) {
                // A service manager's socket may be bound without SO_REUSEPORT: several
                // workers share it.
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    sockets[sockets.len() % given].try_clone()
                }
                other => other,
            };
            sockets.push(another.map_err(failed)?);
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
    // Without SO_REUSEADDR, connections of an earlier process in TIME_WAIT
    // would block the bind.
    socket.set_reuse_address(true)?;
    socket.set_reuse_port(shared)?;
    if address.is_ipv6() {
        // Without it, `[::]:443` would take `0.0.0.0:443` as well.
        socket.set_only_v6(true)?;
    }
    set_options(&socket)?;
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Makes the socket non-blocking, and sets the options that accepted sockets inherit.
fn set_options(socket: &Socket) -> io::Result<()> {
    socket.set_nonblocking(true)?;
    socket.set_tcp_nodelay(true)?;
    // The kernel would buffer up to `net.ipv4.tcp_wmem` for a client that reads
    // nothing, 4 MiB by default. Systems without the option serve too.
    let _ = socket.set_tcp_notsent_lowat(UNSENT);
    Ok(())
}

/// Bytes that a socket takes before its client's window is open for them. A
/// congestion window may be larger: what is under way does not count.
const UNSENT: u32 = 512 << 10;

/// Connections that wait to be accepted; `net.core.somaxconn` may lower it.
const BACKLOG: i32 = 4096;
