//! Moves bytes between the socket and the session.

use std::cell::RefCell;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf};
use tokio::net::TcpStream;

use super::session::Session;
use super::unacknowledged::unacknowledged;
use super::{Broken, Stream};
use crate::limits::timeouts::ConnTimeouts;

impl Stream {
    /// Processes bytes received with the ClientHello: rustls leaves them in its
    /// buffer until the next read.
    ///
    /// # Errors
    /// If they break the TLS protocol; [`Self::poll_linger`] sends the alert.
    pub(crate) fn process_received(&mut self) -> Result<(), Broken> {
        let Session::Tls(tls) = &mut self.session else {
            return Ok(());
        };
        let processed = tls.process_new_packets();
        processed.map(drop).map_err(Broken::Tls)
    }
}

/// Reads once into the worker's buffer and passes the bytes to `show`; none at
/// the end of the stream.
pub(crate) fn receive<T>(
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    show: impl FnOnce(&[u8]) -> T,
) -> Poll<io::Result<T>> {
    BUFFER.with_borrow_mut(|buffer| {
        let mut buf = ReadBuf::new(buffer);
        ready!(Pin::new(socket).poll_read(cx, &mut buf))?;
        Poll::Ready(Ok(show(buf.filled())))
    })
}

/// Writes all that is queued, up to 64 records of TLS with one system call.
pub(super) fn send(
    session: &mut Session,
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    timeouts: &ConnTimeouts,
    after: After,
) -> Poll<io::Result<()>> {
    let mut wire = Wire { socket, cx, after };
    while session.wants_write() {
        match session.write_to(&mut wire) {
            Ok(0) => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
            Ok(sent) => timeouts.sent(sent),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                timeouts.blocked(|| unacknowledged(wire.socket));
                return Poll::Pending;
            }
            Err(error) => return Poll::Ready(Err(error)),
        }
    }
    Poll::Ready(Ok(()))
}

/// Writes to a socket whose sending side is shut down right after: the kernel keeps
/// the last segment back until then, and sends data and FIN as one. Closing the
/// descriptor instead would lose it where there is unread input.
pub(crate) fn poll_write_last(
    socket: &TcpStream,
    cx: &mut Context<'_>,
    bufs: &[IoSlice<'_>],
) -> Poll<io::Result<usize>> {
    let flags = libc::MSG_MORE | libc::MSG_NOSIGNAL;
    loop {
        ready!(socket.poll_write_ready(cx))?;
        let written = socket.try_io(Interest::WRITABLE, || {
            SockRef::from(socket).send_vectored_with_flags(bufs, flags)
        });
        // `WouldBlock` has cleared the readiness: the next turn registers the task.
        if written.as_ref().map_err(io::Error::kind) != Err(io::ErrorKind::WouldBlock) {
            return Poll::Ready(written);
        }
    }
}

/// Event that follows a write.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum After {
    /// More may be written.
    Open,
    /// The sending side is shut down at once.
    Fin,
}

/// Socket as a blocking writer for the session: when it is not ready, it registers
/// the task and returns `WouldBlock`.
struct Wire<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
    after: After,
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.socket).poll_write(self.cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        if self.after == After::Fin {
            return blocking(poll_write_last(self.socket, self.cx, bufs));
        }
        // The system call for several buffers costs more.
        if let [buf] = bufs {
            return self.write(buf);
        }
        blocking(Pin::new(&mut *self.socket).poll_write_vectored(self.cx, bufs))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn blocking(poll: Poll<io::Result<usize>>) -> io::Result<usize> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

thread_local! {
    /// Read buffer that all connections of a worker share: it holds bytes only
    /// within [`receive`].
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_SIZE].into());
}

/// A full TLS record and the start of the next.
const BUFFER_SIZE: usize = 20 * 1024;
