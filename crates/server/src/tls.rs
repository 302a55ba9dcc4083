//! Stream between the socket and hyper: TLS, or plain HTTP.
//!
//! The stream saves system calls. A read takes what the socket has into a
//! buffer that all connections of a worker share. A flight goes out in one
//! vectored write. TLS 1.3 tickets are sent with the first answer. An idle
//! connection holds no buffer besides that of rustls.

mod corked;
pub(crate) mod frames;
pub(crate) mod hello;
mod lines;
mod read;
pub(crate) mod refuse;
mod release;
mod session;
pub(crate) mod signing;
mod turns;
mod unacknowledged;
mod watch;
mod wire;

use std::io::{self, IoSlice, Write};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};

use bytes::Bytes;
use rustls::server::ServerConnection;
use tokio::net::TcpStream;

use crate::limits::timeouts::ConnTimeouts;
use crate::tls::frames::Frames;
pub(crate) use corked::Corked;
use lines::LineParser;
use session::Session;
use turns::Bulk;
use wire::send;
pub(crate) use wire::{After, poll_write_last, receive};

/// A connection without TLS, or with TLS after or during its handshake.
pub(crate) struct Stream {
    socket: TcpStream,
    session: Session,
    /// Plaintext that hyper read ahead and gave back.
    unread: Bytes,
    /// Ciphertext that waits while rustls holds [`PLAINTEXT_LIMIT`] of
    /// plaintext.
    stash: Vec<u8>,
    /// Bounds what it reads while others wait.
    bulk: Bulk,
    timeouts: Arc<ConnTimeouts>,
    /// Where in the requests of HTTP/1.1 the next plaintext lies.
    parser: LineParser,
    /// Frame counters; for HTTP/2 only.
    frames: Option<Box<Frames>>,
    /// Queued tickets wait to be sent with the first answer.
    delays_tickets: bool,
    /// rustls's read buffer holds a page: see [`Self::release_buffer`].
    filled: bool,
    /// The client has closed its sending side.
    ended: bool,
    /// The client misused HTTP/2: the connection ends with GOAWAY.
    misused: bool,
    closing: Closing,
}

impl Stream {
    /// Makes a stream. `rest` holds the bytes received after the ClientHello.
    pub(crate) fn new(socket: TcpStream, tls: ServerConnection, rest: Vec<u8>) -> Self {
        let mut tls = Box::new(tls);
        tls.set_buffer_limit(Some(SEND_LIMIT));
        Self::of(socket, Session::Tls(tls), rest)
    }

    /// Makes a stream of plain HTTP.
    pub(crate) fn clear(socket: TcpStream) -> Self {
        Self::of(socket, Session::Clear(Box::default()), Vec::new())
    }

    fn of(socket: TcpStream, session: Session, stash: Vec<u8>) -> Self {
        Self {
            socket,
            session,
            unread: Bytes::new(),
            stash,
            bulk: Bulk::default(),
            timeouts: Arc::default(),
            parser: LineParser::default(),
            frames: None,
            delays_tickets: false,
            filled: true,
            ended: false,
            misused: false,
            closing: Closing::Open,
        }
    }

    /// Returns the TLS connection, to read what was negotiated; none over plain HTTP.
    pub(crate) fn tls(&self) -> Option<&ServerConnection> {
        match &self.session {
            Session::Tls(tls) => Some(tls),
            Session::Clear(_) => None,
        }
    }

    /// Returns the timeouts of the connection, which its requests share.
    pub(crate) fn timeouts(&self) -> &Arc<ConnTimeouts> {
        &self.timeouts
    }

    /// Returns the address that the client connected to; None if the system can't tell.
    pub(crate) fn local_address(&self) -> Option<SocketAddr> {
        self.socket.local_addr().ok()
    }

    /// Drives the handshake to its end. TLS 1.3 tickets stay queued, since no
    /// client waits for them.
    ///
    /// # Errors
    /// The cause, if the handshake failed; the alert of rustls was then sent.
    pub(crate) fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        loop {
            let done = !self.session.is_handshaking();
            self.delays_tickets = done && self.is_tls13();
            if !self.delays_tickets && self.session.wants_write() {
                ready!(self.poll_send(cx))?;
            }
            if done {
                return Poll::Ready(Ok(()));
            }
            if let Err(broken) = ready!(self.poll_fill(cx)) {
                // Sends the alert, if rustls has queued one.
                let _ = self.poll_send(cx)?;
                return Poll::Ready(Err(broken));
            }
            if self.ended {
                return Poll::Ready(Err(Broken::Io(io::ErrorKind::UnexpectedEof.into())));
            }
        }
    }

    /// Ends a connection whose handshake failed: sends what rustls has queued,
    /// and discards what the client still sends.
    pub(crate) fn poll_linger(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.closing = self.closing.max(Closing::Notified);
        self.poll_close(cx)
    }

    /// Takes back what hyper has read ahead of the next HTTP/1.1 request.
    pub(crate) fn put_back(&mut self, unread: Bytes) {
        // An empty `Bytes` would still hold hyper's buffer.
        if !unread.is_empty() {
            self.unread = unread;
        }
    }

    /// Notes that the connection leaves HTTP.
    pub(crate) fn leave_http(&mut self) {
        self.parser = LineParser::Unknown;
    }

    /// Resolves when a read would return bytes or the end of the stream.
    pub(crate) fn poll_readable(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let waiting = self.unread.is_empty() && self.stash.is_empty() && !self.ended;
        if waiting {
            ready!(self.socket.poll_read_ready(cx)).ok();
        }
        Poll::Ready(())
    }

    fn is_tls13(&self) -> bool {
        let version = self.tls().and_then(|tls| tls.protocol_version());
        version == Some(rustls::ProtocolVersion::TLSv1_3)
    }

    /// Takes plaintext of the stash, or else of one read from the socket. The end of the
    /// stream sets `ended`.
    fn poll_fill(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Broken>> {
        if !self.stash.is_empty() {
            self.filled = true;
            let stash = std::mem::take(&mut self.stash);
            return Poll::Ready(self.session.feed(&stash, &mut self.stash));
        }
        ready!(self.bulk.poll_turn(cx));
        let Self {
            socket,
            session,
            stash,
            bulk,
            ended,
            filled,
            ..
        } = self;
        let read = receive(socket, cx, |bytes| {
            bulk.note(bytes.len());
            if bytes.is_empty() {
                *ended = true;
                return Ok(());
            }
            *filled = true;
            session.feed(bytes, stash)
        });
        if read.is_pending() {
            bulk.pause();
        }
        read.map(|fed| fed?)
    }

    /// Sends what is queued.
    pub(crate) fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.session.wants_write() {
            return Poll::Ready(Ok(()));
        }
        self.delays_tickets = false;
        let after = match self.closing {
            Closing::Open => After::Open,
            Closing::Notified | Closing::Drained(_) => After::Fin,
        };
        let (session, socket) = (&mut self.session, &mut self.socket);
        send(session, socket, cx, &self.timeouts, after)
    }

    /// Sends close_notify and FIN, and waits for the client's end.
    pub(crate) fn poll_close(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        loop {
            match self.closing {
                Closing::Open => {
                    if self.misused {
                        // Answers may fill all that rustls queues.
                        ready!(self.poll_send(cx))?;
                    }
                    self.send_goaway()?;
                    self.session.send_close_notify();
                    self.closing = Closing::Notified;
                }
                Closing::Notified => {
                    ready!(self.poll_send(cx))?;
                    // Starts the linger time only now: a slow reader has had
                    // its body limit.
                    self.timeouts.close();
                    // Sends what the kernel kept back for the FIN. Closing the
                    // descriptor would discard it if there is unread input.
                    ready!(tokio::io::AsyncWrite::poll_shutdown(
                        Pin::new(&mut self.socket),
                        cx
                    ))?;
                    if self.ended || self.timeouts.is_exhausted() {
                        return Poll::Ready(Ok(()));
                    }
                    self.closing = Closing::Drained(0);
                }
                Closing::Drained(drained) => {
                    let read = receive(&mut self.socket, cx, <[u8]>::len);
                    let n = ready!(read)?;
                    if n == 0 || drained + n > LINGER_LIMIT {
                        return Poll::Ready(Ok(()));
                    }
                    self.closing = Closing::Drained(drained + n);
                }
            }
        }
    }
}

impl Drop for Stream {
    /// Sends close_notify, without waiting, if a limit cut the connection off
    /// between requests. Within an answer it would make a truncated body look
    /// complete (RFC 9112, section 9.8). Unread input would make the kernel discard what it keeps back for
    /// a FIN: this write is sent at once.
    fn drop(&mut self) {
        let established = !self.session.is_handshaking() && !self.timeouts.is_cut();
        if self.closing == Closing::Open && established {
            self.session.send_close_notify();
            let mut cx = Context::from_waker(Waker::noop());
            let (session, socket) = (&mut self.session, &mut self.socket);
            let _ = send(session, socket, &mut cx, &self.timeouts, After::Open);
        }
    }
}

impl hyper::rt::Write for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        loop {
            let n = self.session.write_vectored(bufs)?;
            if n > 0 || bufs.iter().all(|buf| buf.is_empty()) {
                self.delays_tickets &= n == 0;
                self.note_sent(bufs, n);
                return Poll::Ready(Ok(n));
            }
            ready!(self.poll_send(cx))?;
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // A small last answer waits for close_notify.
        if self.timeouts.is_closing_soon() {
            return Poll::Ready(Ok(()));
        }
        // Tickets wait for the first answer. Meanwhile its client may leave.
        if !self.delays_tickets {
            ready!(self.poll_send(cx))?;
        }
        if self.frames.is_none() && self.timeouts.is_at_upstream() {
            self.look_for_end(cx);
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_close(cx)
    }
}

/// Error of the TLS stream.
#[derive(Debug)]
pub(crate) enum Broken {
    /// The socket failed.
    Io(io::Error),
    /// The peer broke the TLS protocol, or sent an alert.
    Tls(rustls::Error),
}

impl From<io::Error> for Broken {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

impl From<Broken> for io::Error {
    fn from(broken: Broken) -> Self {
        match broken {
            Broken::Io(error) => error,
            Broken::Tls(error) => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}

/// Progress of closing the stream.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Closing {
    Open,
    Notified,
    /// The sending side is shut; this many bytes were discarded since.
    Drained(usize),
}

/// Bytes queued for a client that does not take them. Two records of TLS
/// fill one write, and stay small with many slow readers.
pub(crate) const SEND_LIMIT: usize = 32 * 1024;

/// Bytes of plaintext above which rustls refuses input.
const PLAINTEXT_LIMIT: usize = 16 * 1024;

/// Bytes that a closed connection or a refused one discards before it gives up.
const LINGER_LIMIT: usize = 256 * 1024;
