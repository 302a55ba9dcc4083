//! Requests by which a tenant spoils what a server knows of the tenant's own upstream.

use std::time::Duration;

use tokio::io::{self, AsyncReadExt, AsyncWriteExt, sink};
use tokio::net::TcpStream;
use tokio::time::sleep;
use tokio_rustls::client::TlsStream;

use super::Attacker;

/// How an upstream fails at a request; the request's path asks for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Way {
    /// Answers with 503.
    Refused,
    /// Closes the connection without an answer.
    Closed,
    /// Begins an answer, whose body comes byte by byte.
    Slow,
    /// Takes nothing of the request's body, and does not answer.
    Untaken,
    /// Another server of the site accepts no connections.
    Dead,
    /// Has a certificate for another name than the site says.
    Mistaken,
}

impl Way {
    pub(crate) const ALL: [Self; 6] = [
        Self::Refused,
        Self::Closed,
        Self::Slow,
        Self::Untaken,
        Self::Dead,
        Self::Mistaken,
    ];

    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::Refused => "/refused",
            Self::Closed => "/closed",
            Self::Slow => "/slow",
            Self::Untaken => "/untaken",
            Self::Dead => "/dead",
            Self::Mistaken => "/mistaken",
        }
    }

    /// Returns the way of a connection.
    pub(super) fn of(number: usize) -> Self {
        Self::ALL[number % Self::ALL.len()]
    }
}

impl Attacker {
    /// Sends requests that fail in this way, one after the other.
    pub(super) async fn spoil(
        &self,
        stream: &mut TlsStream<TcpStream>,
        way: Way,
    ) -> io::Result<()> {
        let (path, host) = (way.path(), &self.target.host);
        if way == Way::Untaken {
            let head =
                format!("POST {path} HTTP/1.1\r\nHost: {host}\r\nContent-Length: {UPLOAD}\r\n\r\n");
            self.write(stream, head.as_bytes(), 1).await?;
            let piece = vec![b'x'; 16 << 10];
            loop {
                stream.write_all(&piece).await?;
            }
        }
        let request = format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n");
        let mut answer = vec![0; 16 << 10];
        loop {
            self.write(stream, request.as_bytes(), 1).await?;
            if stream.read(&mut answer).await? == 0 {
                return Ok(());
            }
            if way == Way::Slow {
                return io::copy(stream, &mut sink()).await.map(drop);
            }
            sleep(PAUSE).await;
        }
    }
}

/// Bytes of a body that is never taken: less than a site's `body_limit`, more than buffers
/// hold.
const UPLOAD: usize = 64 << 20;
/// Between two requests: failures matter here, not how many.
const PAUSE: Duration = Duration::from_millis(20);
