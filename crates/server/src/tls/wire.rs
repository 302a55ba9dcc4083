//! Bytes between the socket and rustls.

use std::cell::RefCell;
use std::io::{self, IoSlice, Write};
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use rustls::server::ServerConnection;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

use super::unacknowledged::unacknowledged;
use super::{Broken, Stream};
use crate::timeouts::ConnTimeouts;

impl Stream {
    /// Processes what was received with the ClientHello: rustls takes nothing
    /// out of its own buffer before the next read.
    ///
    /// # Errors
    /// What breaks TLS's rules there; [`Self::poll_linger`] sends the alert.
    pub(crate) fn process_received(&mut self) -> Result<(), Broken> {
        let processed = self.tls.process_new_packets();
        processed.map(drop).map_err(Broken::Tls)
    }
}

/// Reads once into the worker's buffer and shows what came; nothing at the
/// end of the stream.
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

/// Writes all that rustls has queued, up to 64 records with one system call.
pub(crate) fn send(
    tls: &mut ServerConnection,
    socket: &mut TcpStream,
    cx: &mut Context<'_>,
    timeouts: &ConnTimeouts,
) -> Poll<io::Result<()>> {
    let mut wire = Wire { socket, cx };
    while tls.wants_write() {
        match tls.write_tls(&mut wire) {
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

/// The socket as rustls wants it: not ready is `WouldBlock`, with the task
/// registered to be woken.
struct Wire<'a, 'b> {
    socket: &'a mut TcpStream,
    cx: &'a mut Context<'b>,
}

impl Write for Wire<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        blocking(Pin::new(&mut *self.socket).poll_write(self.cx, buf))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
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
    /// Shared by all connections of a worker: it holds bytes only between two
    /// lines of [`receive`].
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; BUFFER_SIZE].into());
}

/// A full TLS record and the start of the next.
const BUFFER_SIZE: usize = 20 * 1024;
