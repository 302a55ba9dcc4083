//! One connection to the endpoint: HTTP/2 if it offers that, else HTTP/1.1.

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::Response;
use http_body_util::Empty;
use hyper::body::Incoming;
use hyper::client::conn::{http1, http2};
use hyper_util::rt::{TokioExecutor, TokioIo};
use rustls::ClientConfig;
use rustls_pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::client::Get;
use super::template::Template;
use sekisho_certs::store::{Result, StoreError};

/// Where connections lead.
pub(super) struct Target {
    host: String,
    port: u16,
    tls: Option<(TlsConnector, ServerName<'static>)>,
}

/// What requests are sent into. Its driver is a task of the runtime that has
/// opened it, and ends when nobody holds this any more.
pub(super) enum Connection {
    Http1(http1::SendRequest<Empty<Bytes>>),
    Http2(http2::SendRequest<Empty<Bytes>>),
}

impl Target {
    pub(super) fn new(template: &Template, tls: Option<ClientConfig>) -> Result<Self> {
        let host = template.host().to_owned();
        let tls = match tls {
            None => None,
            Some(config) => {
                let name = ServerName::try_from(host.clone()).map_err(|_| {
                    StoreError::Refused(format!("{host:?} is no name of a server").into())
                })?;
                Some((TlsConnector::from(Arc::new(config)), name))
            }
        };
        Ok(Self {
            host,
            port: template.port(),
            tls,
        })
    }

    /// Opens a connection; the caller bounds the time.
    pub(super) async fn connect(&self) -> std::result::Result<Connection, String> {
        let socket = self.socket().await?;
        // A request is one small write, and somebody waits for the answer.
        socket
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        let Some((connector, name)) = &self.tls else {
            return over_http1(socket).await;
        };
        let stream = connector.connect(name.clone(), socket).await;
        let stream = stream.map_err(|error| format!("the TLS handshake failed: {error}"))?;
        match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => over_http2(stream).await,
            _ => over_http1(stream).await,
        }
    }

    /// Tries the addresses one after the other.
    async fn socket(&self) -> std::result::Result<TcpStream, String> {
        let Self { host, port, .. } = self;
        let addresses = lookup_host((host.as_str(), *port)).await;
        let addresses = addresses.map_err(|error| format!("{host} has no address: {error}"))?;
        let mut addresses = addresses.take(MOST_ADDRESSES).peekable();
        let mut failed = format!("{host} has no address");
        while let Some(address) = addresses.next() {
            let connect = TcpStream::connect(address);
            let connected = match addresses.peek() {
                Some(_) => timeout(PATIENCE, connect).await,
                None => Ok(connect.await),
            };
            match connected {
                Ok(Ok(socket)) => return Ok(socket),
                Ok(Err(error)) => failed = format!("no connection to {address}: {error}"),
                Err(_) => failed = format!("no connection to {address} within {PATIENCE:?}"),
            }
        }
        Err(failed)
    }
}

impl Connection {
    /// Gives the head of the answer, and what is left of it to be read.
    pub(super) async fn send(&mut self, get: &Get) -> hyper::Result<Response<Incoming>> {
        match self {
            Self::Http1(sender) => {
                sender.ready().await?;
                sender.send_request(get.http1()).await
            }
            Self::Http2(sender) => {
                sender.ready().await?;
                sender.send_request(get.http2()).await
            }
        }
    }
}

async fn over_http1<T>(stream: T) -> std::result::Result<Connection, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http1::Builder::new()
        .max_buf_size(BUFFER)
        .handshake(TokioIo::new(stream));
    let (sender, driver) = handshake.await.map_err(|error| told(&error))?;
    // Whoever waits for an answer hears how it ended.
    tokio::spawn(async move { drop(driver.await) });
    Ok(Connection::Http1(sender))
}

async fn over_http2<T>(stream: T) -> std::result::Result<Connection, String>
where
    T: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let handshake = http2::Builder::new(TokioExecutor::new())
        .initial_stream_window_size(WINDOW)
        .initial_connection_window_size(WINDOW * 4)
        .max_header_list_size(HEADERS)
        .handshake(TokioIo::new(stream));
    let (sender, driver) = handshake.await.map_err(|error| told(&error))?;
    tokio::spawn(async move { drop(driver.await) });
    Ok(Connection::Http2(sender))
}

/// An error with its causes, each once.
pub(super) fn told(error: &(dyn Error + 'static)) -> String {
    let mut text = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        next = cause.source();
    }
    text
}

/// What waits for an address before the next one is tried: a server that is
/// there answers in far less, and a call has two seconds.
const PATIENCE: Duration = Duration::from_millis(500);
/// A name with more addresses has one that works among the first.
const MOST_ADDRESSES: usize = 8;
/// For a head and the piece of a body behind it; a longer head is refused.
const BUFFER: usize = 32 << 10;
/// All fields of a head together.
const HEADERS: u32 = 16 << 10;
/// Holds a usual bundle of two chains and keys without a further round trip.
const WINDOW: u32 = 64 << 10;
