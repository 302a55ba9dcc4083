//! Sockets of one address: UDP and TCP at the same port.

use std::io::{self, IoSliceMut};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use quinn_udp::{RecvMeta, Transmit, UdpSocketState};
use socket2::{Domain, Socket, Type};
use tokio::io::Interest;

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
        // Connections of an earlier process in TIME_WAIT would block the bind.
        tcp.set_reuse_address(true)?;
        tcp.bind(&address.into())?;
        tcp.listen(BACKLOG)?;
        let udp = socket(address, Type::DGRAM)?;
        udp.bind(&address.into())?;
        Ok(Self {
            udp: udp.into(),
            tcp: tcp.into(),
        })
    }

    /// Takes both sockets over from another process, as [`Self::duplicate`] gave them.
    ///
    /// # Errors
    /// If the descriptors are no such sockets.
    pub fn inherit([udp, tcp]: [OwnedFd; 2]) -> io::Result<Self> {
        let (udp, tcp) = (Socket::from(udp), Socket::from(tcp));
        if udp.r#type()? != Type::DGRAM || !tcp.is_listener()? {
            return Err(io::Error::other("they are no sockets of a name server"));
        }
        Ok(Self {
            udp: udp.into(),
            tcp: tcp.into(),
        })
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
    socket.set_nonblocking(true)?;
    Ok(socket)
}

/// Socket for datagrams that tells to which address each was sent: an answer from another
/// one would be dropped by the resolver.
#[derive(Debug)]
pub(super) struct Datagrams {
    socket: tokio::net::UdpSocket,
    state: UdpSocketState,
}

impl Datagrams {
    /// Receives datagrams of one sender. The kernel may put several into the buffer, each
    /// `stride` bytes after the one before.
    pub(super) async fn receive(&self, buffer: &mut [u8]) -> io::Result<RecvMeta> {
        let mut meta = [RecvMeta::default()];
        let received = self.socket.async_io(Interest::READABLE, || {
            let mut buffers = [IoSliceMut::new(buffer)];
            let socket = (&self.socket).into();
            self.state.recv(socket, &mut buffers, &mut meta)
        });
        received.await?;
        Ok(meta[0])
    }

    /// Sends an answer from the address that was asked. A full queue loses it, as any router
    /// may.
    pub(super) fn send(&self, answer: &[u8], asked: &RecvMeta) -> io::Result<()> {
        let transmit = Transmit {
            destination: asked.addr,
            ecn: None,
            contents: answer,
            segment_size: None,
            src_ip: asked.dst_ip,
        };
        self.socket.try_io(Interest::WRITABLE, || {
            self.state.try_send((&self.socket).into(), &transmit)
        })
    }
}

/// Connections that wait to be accepted.
const BACKLOG: i32 = 512;
