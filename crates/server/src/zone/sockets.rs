//! Sockets of one address: UDP and TCP at the same port.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use quinn_udp::UdpSocketState;
use socket2::{Domain, Socket, Type};

use super::udp::Datagrams;

/// Sockets of a name server's address.
#[derive(Debug)]
pub struct ZoneSockets {
    udp: UdpSocket,
    tcp: TcpListener,
}

impl ZoneSockets {
    /// Binds both sockets.
    ///
    /// # Errors
    /// The system's.
    pub fn bind(address: SocketAddr) -> io::Result<Self> {
        let tcp = socket(address, Type::STREAM)?;
        let udp = socket(address, Type::DGRAM)?;
        tcp.listen(BACKLOG)?;
        Ok(Self {
            udp: udp.into(),
            tcp: tcp.into(),
        })
    }

    /// Takes both sockets over from another process, as [`Self::duplicate`] gave them.
    #[must_use]
    pub fn inherit([udp, tcp]: [OwnedFd; 2]) -> Self {
        Self {
            udp: udp.into(),
            tcp: tcp.into(),
        }
    }

    /// Duplicates both sockets, UDP first, for a process that takes this one's place.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub fn duplicate(&self) -> io::Result<[OwnedFd; 2]> {
        Ok([self.udp.try_clone()?.into(), self.tcp.try_clone()?.into()])
    }

    /// Registers both sockets with the runtime.
    pub(super) fn open(self) -> io::Result<(Datagrams, tokio::net::TcpListener)> {
        let state = UdpSocketState::new((&self.udp).into())?;
        let socket = tokio::net::UdpSocket::from_std(self.udp)?;
        let tcp = tokio::net::TcpListener::from_std(self.tcp)?;
        Ok((Datagrams { socket, state }, tcp))
    }
}

fn socket(address: SocketAddr, kind: Type) -> io::Result<Socket> {
    let socket = Socket::new(Domain::for_address(address), kind, None)?;
    if address.is_ipv6() {
        // Without it, `[::]:53` would take `0.0.0.0:53` as well.
        socket.set_only_v6(true)?;
    }
    // Connections of an earlier process in TIME_WAIT would block the bind. Datagrams would be
    // shared with another server.
    socket.set_reuse_address(kind == Type::STREAM)?;
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    Ok(socket)
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 512;
