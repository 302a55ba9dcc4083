//! What lies between the socket and plaintext: a TLS session, or nothing over plain HTTP.

use std::io::{self, IoSlice, Write};

use bytes::{Buf as _, BytesMut};
use rustls::server::ServerConnection;

use super::{Broken, PLAINTEXT_LIMIT, SEND_LIMIT};

/// Layer between the socket and plaintext. Writing to it queues plaintext to be sent, at
/// most [`SEND_LIMIT`].
pub(super) enum Session {
    Tls(Box<ServerConnection>),
    Clear(Box<Clear>),
}

impl Session {
    /// Takes bytes of the socket. TLS takes them until it holds [`PLAINTEXT_LIMIT`] of
    /// plaintext, and the rest goes to the stash. Without TLS one read is the bound: the
    /// next one comes once these bytes are consumed.
    pub(super) fn feed(&mut self, bytes: &[u8], stash: &mut Vec<u8>) -> Result<(), Broken> {
        match self {
            Self::Tls(tls) => decrypt(tls, bytes, stash),
            Self::Clear(clear) => {
                clear.received.extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    /// Returns plaintext that was received; none after close_notify.
    ///
    /// # Errors
    /// `WouldBlock` if more must be read first.
    pub(super) fn fill_buf(&mut self) -> io::Result<&[u8]> {
        match self {
            Self::Tls(tls) => tls.reader().into_first_chunk(),
            Self::Clear(clear) if clear.received.is_empty() => {
                Err(io::ErrorKind::WouldBlock.into())
            }
            Self::Clear(clear) => Ok(&clear.received),
        }
    }

    /// Removes the first `n` bytes of what [`Self::fill_buf`] has returned.
    pub(super) fn consume(&mut self, n: usize) {
        match self {
            Self::Tls(tls) => io::BufRead::consume(&mut tls.reader(), n),
            Self::Clear(clear) => remove(&mut clear.received, n),
        }
    }

    /// Returns whether bytes wait to be sent.
    pub(super) fn wants_write(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.wants_write(),
            Self::Clear(clear) => !clear.queued.is_empty(),
        }
    }

    /// Writes what waits to be sent, with one call of `wire`. Returns how much it took.
    pub(super) fn write_to(&mut self, wire: &mut dyn Write) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.write_tls(wire),
            Self::Clear(clear) => clear.write_to(wire),
        }
    }

    /// Queues close_notify. Without TLS, the end of the stream says as much.
    pub(super) fn send_close_notify(&mut self) {
        if let Self::Tls(tls) = self {
            tls.send_close_notify();
        }
    }

    pub(super) fn is_handshaking(&self) -> bool {
        match self {
            Self::Tls(tls) => tls.is_handshaking(),
            Self::Clear(_) => false,
        }
    }
}

impl Write for Session {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.write_vectored(&[IoSlice::new(buf)])
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        match self {
            Self::Tls(tls) => tls.writer().write_vectored(bufs),
            Self::Clear(clear) => Ok(clear.queue(bufs)),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Buffers of a connection without TLS. An empty one has no memory: most connections are
/// idle.
#[derive(Default)]
pub(super) struct Clear {
    /// Bytes of one read that hyper has not taken yet.
    received: BytesMut,
    /// Bytes that the socket has not taken yet, at most [`SEND_LIMIT`].
    queued: BytesMut,
}

impl Clear {
    /// Queues as much as there is room for. Returns how many bytes that is.
    fn queue(&mut self, bufs: &[IoSlice<'_>]) -> usize {
        let before = self.queued.len();
        for buf in bufs {
            let room = SEND_LIMIT - self.queued.len();
            self.queued.extend_from_slice(&buf[..buf.len().min(room)]);
        }
        self.queued.len() - before
    }

    fn write_to(&mut self, wire: &mut dyn Write) -> io::Result<usize> {
        let written = wire.write_vectored(&[IoSlice::new(&self.queued)])?;
        remove(&mut self.queued, written);
        Ok(written)
    }
}

/// Removes the first `n` bytes, and the memory if none is left.
fn remove(bytes: &mut BytesMut, n: usize) {
    bytes.advance(n);
    if bytes.is_empty() {
        *bytes = BytesMut::new();
    }
}

/// Hands ciphertext to rustls until it holds [`PLAINTEXT_LIMIT`] of plaintext.
/// The rest goes to the stash.
fn decrypt(
    tls: &mut ServerConnection,
    mut bytes: &[u8],
    stash: &mut Vec<u8>,
) -> Result<(), Broken> {
    while !bytes.is_empty() {
        if tls.read_tls(&mut bytes)? == 0 {
            // Data after close_notify is ignored (RFC 8446, section 6.1).
            return Ok(());
        }
        let state = tls.process_new_packets().map_err(Broken::Tls)?;
        if state.plaintext_bytes_to_read() >= PLAINTEXT_LIMIT {
            stash.extend_from_slice(bytes);
            return Ok(());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{Request, Response};
    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Body as _, Incoming};
    use hyper::server::conn::http1;
    use hyper::service::service_fn;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};

    use super::*;
    use crate::tls::Stream;

    /// Socket that takes few bytes at a time.
    struct Narrow(Vec<u8>);

    impl Write for Narrow {
        fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
            let n = buf.len().min(1000);
            self.0.extend(&buf[..n]);
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn memory(session: &Session) -> (usize, usize) {
        let Session::Clear(clear) = session else {
            panic!("TLS")
        };
        (clear.received.capacity(), clear.queued.capacity())
    }

    #[test]
    fn what_is_queued_is_bounded_and_sent_in_order() {
        let mut session = Session::Clear(Box::default());
        let all: Vec<_> = (0..200_000).map(|n| (n % 251) as u8).collect();
        let (mut queued, mut socket) = (0, Narrow(Vec::new()));
        while socket.0.len() < all.len() {
            let (first, second) = all[queued..].split_at(usize::min(700, all.len() - queued));
            let bufs = [IoSlice::new(first), IoSlice::new(second)];
            queued += session.write_vectored(&bufs).unwrap();
            assert!(queued - socket.0.len() <= SEND_LIMIT);
            assert!(session.wants_write());
            session.write_to(&mut socket).unwrap();
        }
        assert!(socket.0 == all, "in order");
        assert!(!session.wants_write());
        assert_eq!(memory(&session), (0, 0));
    }

    #[test]
    fn what_was_received_is_taken_in_parts() {
        let (mut session, mut stash) = (Session::Clear(Box::default()), Vec::new());
        for _ in 0..2 {
            let kind = session.fill_buf().map_err(|error| error.kind());
            assert_eq!(kind, Err(io::ErrorKind::WouldBlock));
            session.feed(b"GET / HTTP/1.1\r\n", &mut stash).unwrap();
            assert_eq!(session.fill_buf().unwrap(), b"GET / HTTP/1.1\r\n");
            session.consume(4);
            assert_eq!(session.fill_buf().unwrap(), b"/ HTTP/1.1\r\n");
            session.consume(12);
            assert_eq!(memory(&session), (0, 0));
        }
        assert!(stash.is_empty());
    }

    /// The second request comes on the same connection, and ends it.
    #[tokio::test]
    async fn requests_are_answered_without_tls() {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut client = TcpStream::connect(address).await.unwrap();
        let stream = Stream::clear(listener.accept().await.unwrap().0);
        assert!(stream.tls().is_none());
        let timeouts = Arc::clone(stream.timeouts());
        let echo = service_fn(move |request: Request<Incoming>| {
            let length = request.body().size_hint().exact();
            timeouts.framing().note(length);
            async move {
                let body = request.into_body().collect().await?.to_bytes();
                Ok::<_, hyper::Error>(Response::new(Full::new(body)))
            }
        });
        let serving = http1::Builder::new().serve_connection(stream, echo);
        let asking = async {
            let body = vec![b'x'; 300_000];
            let head = b"POST / HTTP/1.1\r\nHost: a.test\r\nContent-Length: 300000\r\n\r\n";
            client.write_all(head).await.unwrap();
            client.write_all(&body).await.unwrap();
            let mut answer = Vec::new();
            while !answer.ends_with(&body) {
                assert!(client.read_buf(&mut answer).await.unwrap() > 0);
            }
            let last = b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n";
            client.write_all(last).await.unwrap();
            answer.clear();
            client.read_to_end(&mut answer).await.unwrap();
            assert!(answer.starts_with(b"HTTP/1.1 200 OK\r\n"));
            client.shutdown().await.unwrap();
        };
        let (served, ()) = tokio::join!(serving, asking);
        served.unwrap();
    }
}
