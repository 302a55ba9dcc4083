//! Byte stream to an upstream server.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpSocket, TcpStream, UnixStream};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::descriptors::Descriptor;
use super::metered::Metered;
use crate::site::Address;

/// Place where an upstream server listens.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Endpoint {
    Tcp(SocketAddr),
    Unix(Arc<Path>),
}

impl Endpoint {
    /// Returns the place of an address; None for a name.
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

/// Connection to an upstream server.
pub(crate) struct Transport {
    stream: Stream,
    /// Right to the socket; none for an active check.
    descriptor: Option<Arc<Descriptor>>,
}

/// Stream over TCP, a Unix socket, or TLS.
enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
    Tls(Box<TlsStream<Metered>>),
}

impl From<Stream> for Transport {
    fn from(stream: Stream) -> Self {
        Self {
            stream,
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

    /// Connects to a Unix socket.
    ///
    /// # Errors
    /// Of the system.
    pub(crate) async fn unix(path: &Path) -> io::Result<Self> {
        Ok(Stream::Unix(UnixStream::connect(path).await?).into())
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
        let Stream::Tcp(socket) = self.stream else {
            return Err(io::Error::other("TLS needs a TCP connection"));
        };
        let socket = Metered::new(socket);
        let stream = TlsConnector::from(config).connect(name, socket).await?;
        Ok(Self {
            stream: Stream::Tls(Box::new(stream)),
            descriptor: self.descriptor,
        })
    }

    /// Keeps the permit of the socket.
    pub(super) fn with(mut self, descriptor: Option<Arc<Descriptor>>) -> Self {
        self.descriptor = descriptor;
        self
    }

    /// Lets all that was written arrive, though the connection ends.
    ///
    /// # Errors
    /// Of the system.
    #[expect(deprecated, reason = "no linger time never blocks")]
    pub(super) fn keep_written(&self) -> io::Result<()> {
        let socket = match &self.stream {
            Stream::Tcp(socket) => socket,
            Stream::Tls(stream) => &stream.get_ref().0.socket,
            Stream::Unix(_) => return Ok(()),
        };
        socket.set_linger(None)
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
    ($self:ident, $stream:ident => $call:expr) => {
        match &mut $self.get_mut().stream {
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
        let before = buf.filled().len();
        match &mut self.get_mut().stream {
            Stream::Tcp(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Unix(stream) => Pin::new(stream).poll_read(cx, buf),
            Stream::Tls(stream) => {
                ready!(Pin::new(&mut **stream).poll_read(cx, buf))?;
                stream.get_mut().0.opened(buf.filled().len() - before);
                Poll::Ready(Ok(()))
            }
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        each!(self, stream => Pin::new(stream).poll_write(cx, buf))
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
        each!(self, stream => Pin::new(stream).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        match &self.stream {
            Stream::Tcp(stream) => stream.is_write_vectored(),
            Stream::Unix(stream) => stream.is_write_vectored(),
            Stream::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        each!(self, stream => Pin::new(stream).poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.keep_written()?;
        each!(self, stream => Pin::new(stream).poll_shutdown(cx))
    }
}
