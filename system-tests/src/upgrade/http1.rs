//! HTTP/1.1 connection of a client that judges each byte and how the connection ends.

use std::time::Duration;

use futures_util::FutureExt;
use sekisho_bench::load::Failure;
use sekisho_bench::load::client::Client;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};
use tokio_rustls::client::TlsStream;

pub(super) struct Connection<S = TlsStream<TcpStream>> {
    stream: S,
    /// Bytes that were read and not yet used.
    held: Vec<u8>,
}

/// Head of an answer.
#[derive(Debug, Default, Eq, PartialEq)]
pub(super) struct Head {
    pub(super) status: u16,
    pub(super) length: Option<usize>,
    /// Set by `Connection: close`.
    pub(super) closes: bool,
    pub(super) location: Option<String>,
}

/// State of a connection between two requests.
pub(super) enum Idle {
    Open,
    /// Ended by the server, with a `close_notify`.
    Closed,
    Failed(Failure),
}

/// How a body is read.
#[derive(Clone, Copy)]
pub(super) struct Reading {
    pub(super) piece: usize,
    pub(super) pause: Duration,
}

impl Connection {
    pub(super) async fn open(client: &Client, host: &str) -> Result<Self, Failure> {
        Ok(Self::new(client.open(host).await?))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Connection<S> {
    pub(super) fn new(stream: S) -> Self {
        Self {
            stream,
            held: Vec::new(),
        }
    }

    pub(super) async fn send(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = self.stream.write_all(bytes).await;
        written.map_err(Failure::Exchange)?;
        self.stream.flush().await.map_err(Failure::Exchange)
    }

    /// Sends a GET and reads the head of the answer.
    pub(super) async fn ask(&mut self, host: &str, path: &str) -> Result<Head, Failure> {
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        self.send(request.as_bytes()).await?;
        self.head().await
    }

    pub(super) async fn head(&mut self) -> Result<Head, Failure> {
        loop {
            if let Some(at) = self.held.windows(4).position(|part| part == b"\r\n\r\n") {
                let head = Head::parse(&self.held[..at]);
                self.held.drain(..at + 4);
                return head.ok_or(Failure::Response("no HTTP/1.1 response"));
            }
            if self.held.len() > HEAD_LIMIT {
                return Err(Failure::Response("head too long"));
            }
            self.read_more(PIECE).await?;
        }
    }

    /// Reads a body, which must be these bytes.
    pub(super) async fn body(
        &mut self,
        head: &Head,
        expected: &[u8],
        reading: Reading,
    ) -> Result<(), Failure> {
        if head.status != 200 {
            return Err(Failure::Status(head.status));
        }
        if head.length != Some(expected.len()) {
            return Err(Failure::Response("another Content-Length"));
        }
        let (mut rest, mut unpaused) = (expected, 0);
        while !rest.is_empty() {
            if self.held.is_empty() {
                self.read_more(PIECE.min(rest.len())).await?;
            }
            rest = rest
                .strip_prefix(self.held.as_slice())
                .ok_or(Failure::Response("other bytes than those of the file"))?;
            unpaused += self.held.len();
            self.held.clear();
            if unpaused >= reading.piece && !reading.pause.is_zero() {
                unpaused = 0;
                sleep(reading.pause).await;
            }
        }
        Ok(())
    }

    /// Reads exactly so many bytes.
    pub(super) async fn exactly(&mut self, count: usize) -> Result<Vec<u8>, Failure> {
        while self.held.len() < count {
            self.read_more(count - self.held.len()).await?;
        }
        Ok(self.held.drain(..count).collect())
    }

    /// Waits until the server has ended the connection, with a `close_notify`.
    pub(super) async fn closed(&mut self) -> Result<(), Failure> {
        if !self.held.is_empty() {
            return Err(Failure::Response("bytes after the last answer"));
        }
        match timeout(CLOSING, self.stream.read_u8()).await {
            Ok(Err(error)) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                // tokio's own end of the stream has no text of rustls.
                match error.to_string().contains("close_notify") {
                    true => Err(Failure::Exchange(error)),
                    false => Ok(()),
                }
            }
            Ok(Err(error)) => Err(Failure::Exchange(error)),
            Ok(Ok(_)) => Err(Failure::Response("bytes after the last answer")),
            Err(_) => Err(Failure::Response("not closed after the last answer")),
        }
    }

    /// Looks at the connection without waiting.
    pub(super) fn idle(&mut self) -> Idle {
        let mut byte = [0];
        match self.stream.read(&mut byte).now_or_never() {
            None => Idle::Open,
            Some(Ok(0)) => Idle::Closed,
            Some(Ok(_)) => Idle::Failed(Failure::Response("bytes between two requests")),
            Some(Err(error)) => Idle::Failed(Failure::Exchange(error)),
        }
    }

    async fn read_more(&mut self, most: usize) -> Result<(), Failure> {
        let mut limited = (&mut self.stream).take(most as u64);
        match limited.read_buf(&mut self.held).await {
            Ok(0) => Err(Failure::Response("closed before the answer was complete")),
            Ok(_) => Ok(()),
            Err(error) => Err(Failure::Exchange(error)),
        }
    }
}

impl Head {
    fn parse(bytes: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(bytes).ok()?;
        let mut lines = text.split("\r\n");
        let status = lines.next()?.strip_prefix("HTTP/1.1 ")?.get(..3)?;
        let mut head = Self {
            status: status.parse().ok()?,
            ..Self::default()
        };
        for line in lines {
            let (name, value) = line.split_once(':')?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => head.length = Some(value.parse().ok()?),
                "connection" => head.closes |= value.eq_ignore_ascii_case("close"),
                "location" => head.location = Some(value.to_owned()),
                _ => {}
            }
        }
        Some(head)
    }
}

impl Reading {
    /// Reads as fast as the bytes come.
    pub(super) const FAST: Self = Self {
        piece: PIECE,
        pause: Duration::ZERO,
    };
}

const HEAD_LIMIT: usize = 16 << 10;
const PIECE: usize = 64 << 10;
/// Longest wait for the end of a connection after its last answer.
const CLOSING: Duration = Duration::from_secs(10);
