//! Client of the load generator, which opens connections.

mod hello;

pub use hello::Part;

use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, HandshakeKind, NamedGroup};
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::failure::Failure;
use super::http::{self, Connection};
use crate::tls::Offer;

pub struct Client {
    target: SocketAddr,
    tls: TlsConnector,
    group: NamedGroup,
    deadline: Duration,
    sources: u32,
    /// Second number of the first source address.
    net: u8,
    /// Lines that the head of each request has beside its host.
    fields: String,
    /// Length of the page of each visit; None for any.
    length: Option<usize>,
    opened: Cell<u32>,
}

impl Client {
    pub fn new(target: SocketAddr, offer: &Offer, deadline: Duration) -> Result<Self> {
        Ok(Self {
            target,
            tls: TlsConnector::from(Arc::new(offer.config()?)),
            group: offer.group.kx().name(),
            deadline,
            sources: 0,
            net: 1,
            fields: String::new(),
            length: None,
            opened: Cell::new(0),
        })
    }

    pub fn sources(self, sources: u32) -> Self {
        Self { sources, ..self }
    }

    /// Offers HTTP/2 by ALPN instead of HTTP/1.1.
    pub fn http2(mut self) -> Self {
        let mut config = ClientConfig::clone(self.tls.config());
        config.alpn_protocols = vec![b"h2".to_vec()];
        self.tls = TlsConnector::from(Arc::new(config));
        self
    }

    /// Lets the source addresses begin at 127.NET.0.1.
    pub fn in_net(self, net: u8) -> Self {
        Self { net, ..self }
    }

    /// Sends a field with each request of HTTP/1.1, such as `Name: value`.
    pub fn with_field(mut self, field: &str) -> Self {
        self.fields.push_str(field);
        self.fields.push_str("\r\n");
        self
    }

    /// Lets a visit fail if the page has another length.
    pub fn with_length(self, length: usize) -> Self {
        Self {
            length: Some(length),
            ..self
        }
    }

    /// Returns how long a connection or a request may take.
    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Connects, sends a request if there is a path, and ends the connection.
    pub async fn visit(
        &self,
        host: &str,
        path: Option<&str>,
        buffer: &mut Vec<u8>,
    ) -> Result<Visit, Failure> {
        let start = Instant::now();
        let visit = async {
            let mut stream = self.handshake(host).await?;
            let handshake = start.elapsed();
            let length = if let Some(path) = path {
                let request = http::request(path, host, Connection::Close, &self.fields);
                let (_, length) = exchange(&mut stream, &request, buffer).await?;
                if self.length.is_some_and(|wanted| wanted != length) {
                    return Err(Failure::Response("another page"));
                }
                length
            } else {
                stream.shutdown().await.map_err(Failure::Exchange)?;
                0
            };
            let resumed = is_resumed(&stream);
            let whole = start.elapsed();
            // The server closes first. Its session tickets arrive before that
            // end.
            http::read_to_end(&mut stream, buffer).await;
            Ok(Visit {
                handshake,
                whole,
                resumed: resumed || is_resumed(&stream),
                length,
            })
        };
        self.bounded(visit).await
    }

    /// Connects and keeps the connection open.
    pub async fn open(&self, host: &str) -> Result<TlsStream<TcpStream>, Failure> {
        self.bounded(self.handshake(host)).await
    }

    /// Sends a request on a connection that stays open, and reads its response. Returns the
    /// time to the response's first byte.
    pub async fn request(
        &self,
        stream: &mut TlsStream<TcpStream>,
        path: &str,
        host: &str,
        buffer: &mut Vec<u8>,
    ) -> Result<Duration, Failure> {
        self.request_with(stream, path, host, "", buffer).await
    }

    /// Sends a request with more fields, each with CRLF, on a connection that stays open.
    pub async fn request_with(
        &self,
        stream: &mut TlsStream<TcpStream>,
        path: &str,
        host: &str,
        fields: &str,
        buffer: &mut Vec<u8>,
    ) -> Result<Duration, Failure> {
        let start = Instant::now();
        let fields = format!("{}{fields}", self.fields);
        let request = http::request(path, host, Connection::KeepAlive, &fields);
        let (begun, _) = self.bounded(exchange(stream, &request, buffer)).await?;
        Ok(begun.saturating_duration_since(start))
    }

    /// Waits for an exchange until the deadline.
    pub async fn bounded<T>(
        &self,
        exchange: impl Future<Output = Result<T, Failure>>,
    ) -> Result<T, Failure> {
        timeout(self.deadline, exchange)
            .await
            .unwrap_or(Err(Failure::Deadline))
    }

    async fn handshake(&self, host: &str) -> Result<TlsStream<TcpStream>, Failure> {
        let name = ServerName::try_from(host.to_owned()).map_err(|_| Failure::Name)?;
        let tcp = self.connect().await.map_err(Failure::Connect)?;
        let stream = self.tls.connect(name, tcp).await;
        let stream = stream.map_err(Failure::Handshake)?;
        let group = stream.get_ref().1.negotiated_key_exchange_group();
        if group.is_some_and(|group| group.name() != self.group) {
            return Err(Failure::Group);
        }
        Ok(stream)
    }

    /// Connects with a zero linger: closing then sends a reset, which leaves no
    /// TIME_WAIT on either side. With TIME_WAIT, each of 28,000 ports would be
    /// blocked for a minute, too few for a million connections. The reset
    /// destroys no data: the server ends each connection first, and this client
    /// reads up to that end. Source addresses matter only for more connections
    /// at the same time than one address has ports.
    async fn connect(&self) -> std::io::Result<TcpStream> {
        let stream = match self.next_source() {
            Some(source) => {
                let socket = TcpSocket::new_v4()?;
                socket.set_reuseaddr(true)?;
                socket.bind(SocketAddr::new(source, 0))?;
                socket.connect(self.target).await?
            }
            None => TcpStream::connect(self.target).await?,
        };
        stream.set_nodelay(true)?;
        stream.set_zero_linger()?;
        Ok(stream)
    }

    /// Returns the next source address: 127.1.0.1 or 127.NET.0.1 and up, 250 per /24.
    fn next_source(&self) -> Option<IpAddr> {
        let turn = self.opened.get();
        self.opened.set(turn.wrapping_add(1));
        let number = turn.checked_rem(self.sources)?;
        let net = u16::try_from(number / 250).unwrap_or(u16::MAX);
        let [high, low] = net.to_be_bytes();
        let host = (number % 250) as u8 + 1;
        Some(Ipv4Addr::new(127, high.wrapping_add(self.net), low, host).into())
    }
}

async fn exchange(
    stream: &mut TlsStream<TcpStream>,
    request: &[u8],
    buffer: &mut Vec<u8>,
) -> Result<(Instant, usize), Failure> {
    let sent = stream.write_all(request).await;
    sent.map_err(Failure::Exchange)?;
    stream.flush().await.map_err(Failure::Exchange)?;
    http::read_response(stream, buffer).await
}

/// Times of a finished connection.
#[derive(Clone, Copy, Debug)]
pub struct Visit {
    pub handshake: Duration,
    pub whole: Duration,
    pub resumed: bool,
    /// Bytes of the response's body, 0 without a request.
    pub length: usize,
}

pub fn is_resumed(stream: &TlsStream<TcpStream>) -> bool {
    stream.get_ref().1.handshake_kind() == Some(HandshakeKind::Resumed)
}
