//! Byte stream to an upstream server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use socket2::{Domain, SockAddr, Socket, Type};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::bounded::Bound;
use super::descriptors::Descriptor;
use super::metered::Records;
use crate::site::Address;

/// Endpoint of an upstream server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(Arc<Path>),
}

impl Endpoint {
    /// Returns the endpoint of an address; None for a name.
    pub(crate) fn of(address: &Address) -> Option<Self> {
        match address {
            Address::Unix(path) => Some(Self::Unix(Arc::from(&**path))),
            Address::Tcp { host, port } => {
                let ip: IpAddr = host.parse().ok()?;
                Some(Self::Tcp((ip, *port).into()))
            }
        }
    }
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Tcp(address) => address.fmt(f),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Connection to an upstream server, whose bytes are judged.
pub(crate) struct Transport {
    stream: Stream,
    bound: Bound,
    /// Permit of the socket; none for an active check.
    descriptor: Option<Arc<Descriptor>>,
}

/// Stream over TCP, a Unix socket, or TLS, whose records are judged below it.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Transport>>),
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Self {
        Self {
            stream,
            bound: Bound::None,
            descriptor: None,
        }
    }
}

impl Transport {
    /// Connects over TCP.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) async fn tcp(address: SocketAddr) -> io::Result<Self> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // Heads and bodies are written whole.
        socket.set_nodelay(true)?;
        // A connection given up amid a request is reset. Closed, each would keep its port
        // for a minute: clients that reset their requests could take all 28,000 towards a
        // server, and make each connect search for one.
        socket.set_zero_linger()?;
        Ok(Stream::Tcp(socket.connect(address).await?).into())
    }

    /// Connects to a Unix socket, which succeeds or fails at once: no event need be awaited.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) fn unix(path: &Path) -> io::Result<Self> {
        let socket = Socket::new(Domain::UNIX, Type::STREAM.nonblocking(), None)?;
        socket.connect(&SockAddr::unix(path)?)?;
        let socket = std::os::unix::net::UnixStream::from(OwnedFd::from(socket));
        Ok(Stream::Unix(UnixStream::from_std(socket)?).into())
    }

    /// Begins TLS, with `name` as server name.
    ///
    /// # Errors
    /// If the handshake fails, or the server's certificate is not valid for
    /// `name`.
    pub(crate) async fn secure(
        self,
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> io::Result<Self> {
        if !matches!(self.stream, Stream::Tcp(_)) {
            return Err(io::Error::other("TLS needs a TCP connection"));
        }
        // The stream below TLS keeps the permit of the socket.
        let below = self.bounded(Bound::Records(Box::new(Records::new())));
        let stream = TlsConnector::from(config).connect(name, below).await?;
        Ok(Stream::Tls(Box::new(stream)).into())
    }

    /// Bounds what the server may send from now on.
    pub(in crate::upstream) fn bounded(mut self, bound: Bound) -> Self {
        self.bound = bound;
        self
    }

    /// Keeps the permit of the socket.
    pub(in crate::upstream) fn with(mut self, descriptor: Option<Arc<Descriptor>>) -> Self {
        self.descriptor = descriptor;
        self
    }

    /// Lets all that was written arrive, though the connection ends.
    ///
    /// # Errors
    /// Of the system.
    #[expect(deprecated, reason = "no linger time never blocks")]
    pub(in crate::upstream) fn keep_written(&self) -> io::Result<()> {
        match &self.stream {
            Stream::Tcp(socket) => socket.set_linger(None),
            Stream::Tls(stream) => stream.get_ref().0.keep_written(),
            Stream::Unix(_) => Ok(()),
        }
    }

    /// Returns whether the server chose HTTP/2 by ALPN.
    pub(crate) fn chose_http2(&self) -> bool {
        match &self.stream {
            Stream::Tls(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
            Stream::Tcp(_) | Stream::Unix(_) => false,
        }
    }
}

macro_rules! each {
    ($transport:ident, $stream:ident => $call:expr) => {
        match &mut $transport.stream {
            Stream::Tcp($stream) => $call,
            Stream::Unix($stream) => $call,
            Stream::Tls($stream) => $call,
        }
    };
}

impl AsyncRead for Transport {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = buf.filled().len();
        let read = ready!(each!(this, stream => Pin::new(stream).poll_read(cx, buf)));
        let bytes = &buf.filled()[before..];
        if let Stream::Tls(stream) = &mut this.stream {
            stream.get_mut().0.bound.opened(bytes.len());
        }
        Poll::Ready(this.bound.received(read, bytes))
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(each!(this, stream => Pin::new(stream).poll_write(cx, buf)))?;
        this.bound.sent(&buf[..written]);
        Poll::Ready(Ok(written))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The system call for several buffers costs more.
        if let [buf] = bufs {
            return self.poll_write(cx, buf);
        }
        let this = self.get_mut();
        let written = each!(this, stream => Pin::new(stream).poll_write_vectored(cx, bufs));
        let written = ready!(written)?;
        let mut left = written;
        for buf in bufs {
            let taken = buf.len().min(left);
            this.bound.sent(&buf[..taken]);
            left -= taken;
        }
        Poll::Ready(Ok(written))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        each!(this, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        this.keep_written()?;
        each!(this, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
