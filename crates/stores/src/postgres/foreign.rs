//! Connections to databases of somebody else, with a bound on what a call receives.
//!
//! The client library (tokio-postgres 0.7) gathers each message in memory, and a row is
//! one message of any length. It opens its sockets itself and shows none of them:
//! therefore they are opened here, where their bytes are counted.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{TcpStream, UnixStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::{Host, SslMode};
use tokio_postgres::tls::MakeTlsConnect;
use tokio_postgres::{CancelToken, Config};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::fault::{Fault, Step};
use super::url::DEFAULT_PORT;

/// Server that a connection was made to.
pub(super) struct Place {
    server: Server,
    /// Name for TLS.
    name: String,
}

enum Server {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

/// Bytes that a connection has received since its call began, those of TLS included.
#[derive(Clone, Default)]
pub(super) struct Received(Arc<AtomicUsize>);

/// Connects to the first server that answers and takes writes, as the library does.
pub(super) async fn connect(config: &Config, tls: &MakeRustlsConnect) -> Step<Connection> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let mut failed = Fault::Away("the URL names no server".into());
    for index in 0..hosts.len().max(addresses.len()) {
        match places(config, index).await {
            Ok(places) => {
                for place in places {
                    match place.connect(config, tls).await {
                        Ok(connection) => return Ok(connection),
                        Err(fault) => failed = fault,
                    }
                }
            }
            Err(error) => failed = Fault::Away(error.to_string()),
        }
    }
    Err(failed)
}

/// Returns the places of the server with this index.
async fn places(config: &Config, index: usize) -> io::Result<Vec<Place>> {
    let ports = config.get_ports();
    let port = *ports.get(index).or(ports.first()).unwrap_or(&DEFAULT_PORT);
    let address = config.get_hostaddrs().get(index).map(ToString::to_string);
    let (name, host) = match (config.get_hosts().get(index), address) {
        (Some(Host::Unix(folder)), None) => {
            let server = Server::Unix(folder.join(format!(".s.PGSQL.{port}")));
            let name = String::new();
            return Ok(vec![Place { server, name }]);
        }
        (Some(Host::Tcp(name)), None) => (name.clone(), name.clone()),
        (Some(Host::Tcp(name)), Some(address)) => (name.clone(), address),
        (_, address) => {
            let address = address.unwrap_or_default();
            (address.clone(), address)
        }
    };
    let place = |address| Place {
        server: Server::Tcp(address),
        name: name.clone(),
    };
    Ok(lookup_host((host, port)).await?.map(place).collect())
}

impl Place {
    async fn connect(self, config: &Config, tls: &MakeRustlsConnect) -> Step<Connection> {
        let received = Received::default();
        let opened = self.open(config, received.clone()).await;
        let stream = opened.map_err(|error| Fault::Away(format!("{}: {error}", self.shown())))?;
        let mut config = config.clone();
        if matches!(self.server, Server::Unix(_)) {
            config.ssl_mode(SslMode::Disable);
        }
        let (client, mut driver) = config.connect_raw(stream, self.secure(tls)).await?;
        let driver = move |cx: &mut Context<'_>| driver.poll_message(cx);
        let mut connection = Connection::driven(client, driver, |_| {});
        // The library looks at target_session_attrs only where it opens the socket.
        let rows = connection.query("SHOW transaction_read_only", &[]).await?;
        let is_standby = rows.first().map(|row| row.try_get::<_, &str>(0));
        if !matches!(is_standby, Some(Ok("off"))) {
            return Err(Fault::Away("the database does not allow writes".into()));
        }
        connection.foreign = Some((self, received));
        Ok(connection)
    }

    /// Ends the query of a connection to this place.
    pub(super) async fn cancel(
        &self,
        query: &CancelToken,
        config: &Config,
        tls: &MakeRustlsConnect,
    ) {
        if let Ok(stream) = self.open(config, Received::default()).await {
            let _ = query.cancel_query_raw(stream, self.secure(tls)).await;
        }
    }

    fn secure(&self, tls: &MakeRustlsConnect) -> Tls {
        let Ok(tls) = MakeTlsConnect::<Counted>::make_tls_connect(&mut tls.clone(), &self.name);
        tls
    }

    async fn open(&self, config: &Config, received: Received) -> io::Result<Counted> {
        let stream: Box<dyn Duplex> = match &self.server {
            Server::Unix(path) => Box::new(UnixStream::connect(path).await?),
            Server::Tcp(address) => {
                let bound = config.get_connect_timeout().copied();
                let connecting = TcpStream::connect(address);
                let stream = timeout(bound.unwrap_or(Duration::MAX), connecting).await??;
                notice_dead_peers(&stream, config)?;
                Box::new(stream)
            }
        };
        Ok(Counted { stream, received })
    }

    fn shown(&self) -> String {
        match &self.server {
            Server::Tcp(address) => address.to_string(),
            Server::Unix(path) => path.display().to_string(),
        }
    }
}

/// Sets on a socket what the URL says about peers that are gone.
fn notice_dead_peers(stream: &TcpStream, config: &Config) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let socket = SockRef::from(stream);
    socket.set_tcp_user_timeout(config.get_tcp_user_timeout().copied())?;
    if config.get_keepalives() {
        let mut keepalive = TcpKeepalive::new().with_time(config.get_keepalives_idle());
        if let Some(interval) = config.get_keepalives_interval() {
            keepalive = keepalive.with_interval(interval);
        }
        socket.set_tcp_keepalive(&keepalive)?;
    }
    Ok(())
}

impl Received {
    /// Counts anew: a call begins.
    pub(super) fn begin(&self) {
        // Relaxed here and below: the library passes on what it has read, and its end,
        // over channels, which order the count as well.
        self.0.store(0, Ordering::Relaxed);
    }

    /// Tells whether the bound was exceeded, which ended the connection. The library tells
    /// callers only that it ended.
    pub(super) fn is_exceeded(&self) -> bool {
        self.0.load(Ordering::Relaxed) > MAX_RECEIVED
    }
}

type Tls = <MakeRustlsConnect as MakeTlsConnect<Counted>>::TlsConnect;

/// Stream to a server whose bytes are counted.
struct Counted {
    stream: Box<dyn Duplex>,
    received: Received,
}

trait Duplex: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Duplex for S {}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = into.filled().len();
        ready!(Pin::new(&mut self.stream).poll_read(cx, into))?;
        let more = into.filled().len() - before;
        let count = more + self.received.0.fetch_add(more, Ordering::Relaxed);
        Poll::Ready(match count > MAX_RECEIVED {
            true => Err(io::Error::other("more than 4 MiB came for one call")),
            false => Ok(()),
        })
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    /// Lets the server close first: the library shuts a request to cancel down at once, and
    /// `PgBouncer` forgets one whose sender has left.
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            let mut bytes = [0; 64];
            let mut left = ReadBuf::new(&mut bytes);
            ready!(self.as_mut().poll_read(cx, &mut left))?;
            if left.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Bytes of the server for one call. An answer has 1 MiB at most: more comes as one row
/// over the bound, as notices, or as columns that [`super::ScriptDatabase`] refuses.
const MAX_RECEIVED: usize = 4 << 20;
