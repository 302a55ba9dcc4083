//! A bound for messages of a PostgreSQL server, before the client library reads them.
//!
//! The client library (tokio-postgres 0.7) gathers each message in memory, and a row is
//! one message of any length. Each byte passes here first, and is counted: a message
//! over the bound ends the connection when its head arrives.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, TlsStream};

/// Mark that a message was over the bound. The library tells callers only that the
/// connection ended.
#[derive(Clone, Debug, Default)]
pub(super) struct Exceeded(Arc<AtomicBool>);

/// A connection whose messages are bounded.
pub(super) struct MessageLimit<S> {
    stream: S,
    heads: Heads,
    exceeded: Exceeded,
    /// True if a shutdown waits until the server closes.
    awaits_end: bool,
}

/// Follows the protocol just far enough to know where messages begin.
struct Heads {
    most: usize,
    /// The head under way, and how much of it has arrived.
    head: [u8; HEAD],
    arrived: usize,
    /// Bytes of the message that are still to come.
    rest: usize,
}

impl Exceeded {
    pub(super) fn is_set(&self) -> bool {
        // Stored before the library drops what callers wait for.
        self.0.load(Ordering::Acquire)
    }
}

impl<S> MessageLimit<S> {
    /// Bounds messages by `most` bytes without their heads. No part of one may have been
    /// read.
    pub(super) fn new(stream: S, most: usize, exceeded: Exceeded) -> Self {
        let heads = Heads {
            most,
            head: [0; HEAD],
            arrived: 0,
            rest: 0,
        };
        Self {
            stream,
            heads,
            exceeded,
            awaits_end: false,
        }
    }

    /// Lets the server close first. The library shuts a request to cancel down at once,
    /// and `PgBouncer` forgets one whose sender has left.
    pub(super) fn until_end(mut self) -> Self {
        self.awaits_end = true;
        self
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MessageLimit<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        let before = into.filled().len();
        ready!(Pin::new(&mut this.stream).poll_read(cx, into))?;
        let passed = this.heads.pass(&into.filled()[before..]);
        if passed.is_err() {
            into.set_filled(before);
            this.exceeded.0.store(true, Ordering::Release);
        }
        Poll::Ready(passed)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for MessageLimit<S> {
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

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if self.awaits_end {
            let mut byte = [0];
            // A server says nothing here. If it does, or breaks off, that is an end too.
            let _ = ready!(Pin::new(&mut self.stream).poll_read(cx, &mut ReadBuf::new(&mut byte)));
        }
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

impl<S: TlsStream + Unpin> TlsStream for MessageLimit<S> {
    fn channel_binding(&self) -> ChannelBinding {
        self.stream.channel_binding()
    }
}

impl Heads {
    fn pass(&mut self, mut bytes: &[u8]) -> io::Result<()> {
        while let Some((first, behind)) = bytes.split_first() {
            if self.rest > 0 {
                let some = self.rest.min(bytes.len());
                self.rest -= some;
                bytes = &bytes[some..];
                continue;
            }
            self.head[self.arrived] = *first;
            self.arrived += 1;
            bytes = behind;
            if self.arrived == HEAD {
                self.arrived = 0;
                self.rest = self.length()?;
            }
        }
        Ok(())
    }

    /// Reads the length of a message. It counts its own four bytes.
    fn length(&self) -> io::Result<usize> {
        let [_, length @ ..] = self.head;
        let length = usize::try_from(u32::from_be_bytes(length)).ok();
        match length.and_then(|length| length.checked_sub(4)) {
            Some(length) if length <= self.most => Ok(length),
            Some(length) => Err(wrong(format!("a message of {length} bytes is too long"))),
            None => Err(wrong("a message has no length".into())),
        }
    }
}

fn wrong(what: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}

/// Kind and length of a message.
const HEAD: usize = 5;

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;

    use super::*;

    fn message(kind: u8, body: &[u8]) -> Vec<u8> {
        let length = u32::try_from(body.len() + 4).unwrap().to_be_bytes();
        [&[kind], &length[..], body].concat()
    }

    async fn read(sent: &[u8], piece: usize) -> io::Result<Vec<u8>> {
        let pieces = in_pieces(sent, piece);
        let mut limited = MessageLimit::new(pieces, 10, Exceeded::default());
        let mut got = Vec::new();
        limited.read_to_end(&mut got).await.map(|_| got)
    }

    /// Reads bytes in pieces of so many.
    fn in_pieces(sent: &[u8], piece: usize) -> impl AsyncRead + Unpin {
        let (near, mut far) = tokio::io::duplex(piece);
        let sent = sent.to_vec();
        tokio::spawn(async move {
            // The reader may go away.
            let _ = tokio::io::AsyncWriteExt::write_all(&mut far, &sent).await;
        });
        near
    }

    #[tokio::test]
    async fn messages_pass_up_to_the_bound() {
        let fits = [
            message(b'D', &[1; 10]),
            message(b'C', b""),
            message(b'Z', b"I"),
        ]
        .concat();
        let long = [&fits[..], &message(b'D', &[1; 11])].concat();
        let none = [&fits[..], &[b'D', 0, 0, 0, 3]].concat();
        for piece in 1..=fits.len() {
            assert_eq!(read(&fits, piece).await.unwrap(), fits, "pieces of {piece}");
            for wrong in [&long, &none] {
                let error = read(wrong, piece).await.unwrap_err();
                assert_eq!(error.kind(), io::ErrorKind::InvalidData);
            }
        }
    }

    #[tokio::test]
    async fn what_is_too_long_is_never_read() {
        let head = [b'D', 0x40, 0, 0, 0];
        let sent = head.as_slice().chain(tokio::io::repeat(b'x'));
        let exceeded = Exceeded::default();
        let mut limited = MessageLimit::new(sent, 10, exceeded.clone());
        assert!(!exceeded.is_set());
        let mut got = Vec::new();
        limited.read_to_end(&mut got).await.unwrap_err();
        assert!(exceeded.is_set() && got.is_empty(), "{}", got.len());
    }
}
