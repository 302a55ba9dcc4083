//! Connections with bounded messages, to databases of somebody else.

use std::error::Error;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::UnixStream;
use tokio_postgres::config::{Host, SslMode, SslNegotiation};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_postgres::{CancelToken, Config, NoTls, Socket};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::connection::Connection;
use super::fault::{Fault, Step};
use super::message_limit::{Exceeded, MessageLimit};

/// Connects to the first host that answers, as the library does, with messages of at
/// most `most` bytes.
pub(super) async fn connect(
    config: &Config,
    tls: &MakeRustlsConnect,
    most: usize,
) -> Step<Connection> {
    let mut failed = None;
    for path in sockets(config) {
        match local(config, &path, most).await {
            Ok(connection) => return Ok(connection),
            Err(fault) => failed = Some(fault),
        }
    }
    let is_tcp = |host: &Host| matches!(host, Host::Tcp(_));
    match failed {
        Some(fault) if !config.get_hosts().iter().any(is_tcp) => Err(fault),
        _ => remote(config, tls, most).await,
    }
}

/// Ends the query of such a connection at its server.
pub(super) async fn cancel(
    query: &CancelToken,
    config: &Config,
    tls: &MakeRustlsConnect,
    most: usize,
) {
    // A server that did not make the token ignores it.
    for path in sockets(config) {
        if let Ok(stream) = UnixStream::connect(&path).await {
            let stream = MessageLimit::new(stream, most, Exceeded::default()).until_end();
            let _ = query.cancel_query_raw(stream, NoTls).await;
        }
    }
    let mut negotiation = Negotiation::new(config, tls, most, Exceeded::default());
    negotiation.awaits_end = true;
    let _ = query.cancel_query(negotiation).await;
}

/// Returns the paths of the configuration's Unix sockets.
fn sockets(config: &Config) -> Vec<PathBuf> {
    let has_addresses = !config.get_hostaddrs().is_empty();
    let hosts = config.get_hosts().iter().enumerate();
    let hosts = hosts.filter(|_| !has_addresses);
    hosts
        .filter_map(|(index, host)| {
            let Host::Unix(folder) = host else {
                return None;
            };
            let ports = config.get_ports();
            let port = ports.get(index).or(ports.first()).unwrap_or(&DEFAULT_PORT);
            Some(folder.join(format!(".s.PGSQL.{port}")))
        })
        .collect()
}

/// Connects to a Unix socket, always in the clear.
async fn local(config: &Config, path: &Path, most: usize) -> Step<Connection> {
    let stream = UnixStream::connect(path).await;
    let stream = stream.map_err(|error| Fault::Away(format!("{}: {error}", path.display())))?;
    let exceeded = Exceeded::default();
    let stream = MessageLimit::new(stream, most, exceeded.clone());
    let mut config = config.clone();
    config.ssl_mode(SslMode::Disable);
    let (client, mut driver) = config.connect_raw(stream, NoTls).await?;
    let driver = move |cx: &mut Context<'_>| driver.poll_message(cx);
    let connection = Connection::driven(client, driver, |_| {}, exceeded);
    // The library looks at target_session_attrs only where it makes the socket.
    let rows = connection.query("SHOW transaction_read_only", &[]).await?;
    match rows.first().map(|row| row.try_get::<_, &str>(0)) {
        Some(Ok("off")) => Ok(connection),
        _ => Err(Fault::Away("the database does not allow writes".into())),
    }
}

/// Connects over TCP. The library is told to begin with TLS at once, and hands over
/// each new socket: [`Negotiation`] then does what the configuration says.
async fn remote(config: &Config, tls: &MakeRustlsConnect, most: usize) -> Step<Connection> {
    let exceeded = Exceeded::default();
    let negotiation = Negotiation::new(config, tls, most, exceeded.clone());
    let mut config = config.clone();
    config.ssl_mode(SslMode::Require);
    config.ssl_negotiation(SslNegotiation::Direct);
    if config.get_hosts().is_empty() {
        // Without a name, the library refuses TLS.
        for address in config.get_hostaddrs().to_vec() {
            config.host(address.to_string());
        }
    }
    let (client, mut driver) = config.connect(negotiation).await?;
    let driver = move |cx: &mut Context<'_>| driver.poll_message(cx);
    Ok(Connection::driven(client, driver, |_| {}, exceeded))
}

/// Begin of a connection over TCP, until its first message.
#[derive(Clone)]
struct Negotiation {
    tls: MakeRustlsConnect,
    name: String,
    mode: SslMode,
    negotiation: SslNegotiation,
    most: usize,
    exceeded: Exceeded,
    /// True if the server closes first.
    awaits_end: bool,
}

impl MakeTlsConnect<Socket> for Negotiation {
    type Stream = MessageLimit<Secured>;
    type TlsConnect = Self;
    type Error = io::Error;

    fn make_tls_connect(&mut self, name: &str) -> io::Result<Self> {
        Ok(Self {
            name: name.into(),
            ..self.clone()
        })
    }
}

impl TlsConnect<Socket> for Negotiation {
    type Stream = MessageLimit<Secured>;
    type Error = Box<dyn Error + Send + Sync>;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Stream, Self::Error>> + Send>>;

    fn connect(self, socket: Socket) -> Self::Future {
        Box::pin(async move {
            let (most, exceeded) = (self.most, self.exceeded.clone());
            let awaits_end = self.awaits_end;
            let stream = MessageLimit::new(self.secure(socket).await?, most, exceeded);
            Ok(match awaits_end {
                true => stream.until_end(),
                false => stream,
            })
        })
    }
}

impl Negotiation {
    fn new(config: &Config, tls: &MakeRustlsConnect, most: usize, exceeded: Exceeded) -> Self {
        Self {
            tls: tls.clone(),
            name: String::new(),
            mode: config.get_ssl_mode(),
            negotiation: config.get_ssl_negotiation(),
            most,
            exceeded,
            awaits_end: false,
        }
    }

    /// Asks for TLS as the configuration says.
    async fn secure(mut self, mut socket: Socket) -> Result<Secured, Box<dyn Error + Send + Sync>> {
        match (self.mode, self.negotiation) {
            (SslMode::Disable, _) => return Ok(Secured::Plain(socket)),
            (SslMode::Prefer, SslNegotiation::Direct) => {
                return Err("sslnegotiation=direct needs sslmode=require".into());
            }
            (_, SslNegotiation::Direct) => {}
            _ => {
                socket.write_all(&SSL_REQUEST).await?;
                match (socket.read_u8().await?, self.mode) {
                    (b'S', _) => {}
                    (_, SslMode::Prefer) => return Ok(Secured::Plain(socket)),
                    _ => return Err("server does not support TLS".into()),
                }
            }
        }
        let tls = MakeTlsConnect::<Socket>::make_tls_connect(&mut self.tls, &self.name)?;
        Ok(Secured::Tls(Box::new(tls.connect(socket).await?)))
    }
}

type Tls = <MakeRustlsConnect as MakeTlsConnect<Socket>>::Stream;

/// Stream to a server, with or without TLS.
enum Secured {
    Plain(Socket),
    Tls(Box<Tls>),
}

trait Duplex: AsyncRead + AsyncWrite + Unpin {}

impl<S: AsyncRead + AsyncWrite + Unpin> Duplex for S {}

impl Secured {
    fn stream(&mut self) -> Pin<&mut dyn Duplex> {
        Pin::new(match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &mut **stream,
        })
    }
}

impl AsyncRead for Secured {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.stream().poll_read(cx, into)
    }
}

impl AsyncWrite for Secured {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.stream().poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream().poll_shutdown(cx)
    }
}

impl TlsStream for Secured {
    fn channel_binding(&self) -> ChannelBinding {
        match self {
            Self::Plain(_) => ChannelBinding::none(),
            Self::Tls(stream) => stream.channel_binding(),
        }
    }
}

/// Length 8, and the code of an `SSLRequest`.
const SSL_REQUEST: [u8; 8] = [0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f];
/// PostgreSQL's port.
const DEFAULT_PORT: u16 = 5432;
