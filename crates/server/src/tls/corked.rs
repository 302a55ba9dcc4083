//! Stream of HTTP/2: one send for all that a poll of its connection wrote.

use std::io::{self, IoSlice, Write as _};
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, ready};

use hyper::rt::{Read, ReadBufCursor, Write};

use super::Stream;
use crate::tls::frames::parser::{HEAD, RST_STREAM};

use sekisho_certs::lock;

/// Stream that hyper shares with the driver of its connection.
///
/// h2 flushes after each frame of data: without this, each answer would be a system call
/// of its own. Flushes do nothing here. The driver sends after each poll of the
/// connection, and a write sends where [`super::SEND_LIMIT`] is reached. Small frames share
/// a record of TLS. The lock is never contended, since one task uses it.
#[derive(Clone)]
pub(crate) struct Corked(Arc<Mutex<State>>);

struct State {
    stream: Stream,
    /// Frames of the record to come. Empty and without memory between polls, unless the
    /// socket is blocked.
    record: Vec<u8>,
    /// Error of the last send, which hyper gets at its next step.
    failed: Option<io::Error>,
    /// Bytes that were written in this turn of the connection.
    in_turn: usize,
}

impl Corked {
    pub(crate) fn new(stream: Stream) -> Self {
        Self(Arc::new(Mutex::new(State {
            stream,
            record: Vec::new(),
            failed: None,
            in_turn: 0,
        })))
    }

    /// Begins a turn of the connection: it writes [`IN_TURN`] bytes before requests of others
    /// have theirs.
    pub(crate) fn begin_turn(&self) {
        lock(&self.0).in_turn = 0;
    }

    /// Sends what was written, as far as the socket takes it. Returns false if that
    /// failed: the connection must then be polled, and ends.
    pub(crate) fn send(&self, cx: &mut Context<'_>) -> bool {
        let mut state = lock(&self.0);
        if state.stream.delays_tickets {
            return true;
        }
        let sent = match state.poll_seal(cx) {
            Poll::Ready(Ok(())) => state.stream.poll_send(cx),
            unsealed => unsealed,
        };
        match sent {
            Poll::Ready(Err(error)) => {
                state.failed = Some(error);
                false
            }
            Poll::Ready(Ok(())) | Poll::Pending => true,
        }
    }

    /// Calls [`Stream::release_buffer`].
    pub(crate) fn release_buffer(&self) {
        lock(&self.0).stream.release_buffer();
    }

    /// Calls `step` unless the last send failed.
    fn step<T>(&self, step: impl FnOnce(&mut State) -> Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        let mut state = lock(&self.0);
        match state.failed.take() {
            Some(error) => Poll::Ready(Err(error)),
            None => step(&mut state),
        }
    }
}

impl State {
    /// Makes a record of the frames that wait for one.
    fn poll_seal(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut sealed = 0;
        while sealed < self.record.len() {
            let written = self.stream.session.write(&self.record[sealed..])?;
            sealed += written;
            if written == 0 && self.stream.poll_send(cx)?.is_pending() {
                self.record.drain(..sealed);
                return Poll::Pending;
            }
        }
        self.record = Vec::new();
        Poll::Ready(Ok(()))
    }

    /// Writes in turns: a client that takes a hundred large heads or bodies at once would
    /// else keep the worker for all of them.
    fn poll_write_in_turn(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if self.in_turn >= IN_TURN {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let written = ready!(self.poll_write(cx, bufs))?;
        self.in_turn += written;
        Poll::Ready(Ok(written))
    }

    fn poll_write(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let length = bufs.iter().map(|buf| buf.len()).sum();
        if length > SMALL {
            ready!(self.poll_seal(cx))?;
            return Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        }
        if self.stream.is_between_frames()
            && let Some(first) = bufs.first()
            && let Some(reset) = reset_in(first)
        {
            if reset > 0 {
                return self.poll_collect(cx, &[IoSlice::new(&first[..reset])], reset);
            }
            ready!(self.poll_seal(cx))?;
        }
        self.poll_collect(cx, bufs, length)
    }

    /// Adds small frames to the record to come.
    fn poll_collect(
        &mut self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
        length: usize,
    ) -> Poll<io::Result<usize>> {
        if self.record.len() + length > RECORD {
            ready!(self.poll_seal(cx))?;
        }
        if self.record.capacity() == 0 {
            self.record.reserve_exact(FIRST);
        }
        for buf in bufs {
            self.record.extend_from_slice(buf);
        }
        self.stream.delays_tickets &= length == 0;
        self.stream.note_sent(bufs, length);
        Poll::Ready(Ok(length))
    }
}

impl Read for Corked {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        self.step(|state| Pin::new(&mut state.stream).poll_read(cx, buf))
    }
}

impl Write for Corked {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.step(|state| state.poll_write_in_turn(cx, &[IoSlice::new(buf)]))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.step(|state| state.poll_write_in_turn(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.step(|state| {
            ready!(state.poll_seal(cx))?;
            Pin::new(&mut state.stream).poll_shutdown(cx)
        })
    }
}

/// Returns where the first RST_STREAM begins in bytes that begin with a frame.
///
/// It begins a record of its own. A client whose upload an answer refuses gets HEADERS,
/// DATA and RST_STREAM at once, since h2 resets what it need not read (RFC 9113, section
/// 8.1). curl 7.88 reads record by record: in one, the reset hides the answer from it.
fn reset_in(frames: &[u8]) -> Option<usize> {
    let mut at = 0;
    while let Some([l0, l1, l2, kind]) = frames.get(at..at + 4) {
        if *kind == RST_STREAM {
            return Some(at);
        }
        at += HEAD + u32::from_be_bytes([0, *l0, *l1, *l2]) as usize;
    }
    None
}

/// Most bytes of a record, by RFC 8446, section 5.1.
const RECORD: usize = 16 << 10;
/// Bytes that a record has room for at first: a small answer.
const FIRST: usize = 2 << 10;
/// Bytes that a connection writes before others have their turn, but for the last write: two
/// frames of a body, or one answer with large fields.
const IN_TURN: usize = 24 << 10;
/// Bytes up to which a copy costs less than a record of their own.
const SMALL: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
    use std::task::{Wake, Waker};

    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    #[tokio::test]
    async fn a_turn_ends_after_its_bytes_and_the_next_one_comes() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let _client = TcpStream::connect(listener.local_addr().unwrap()).await;
        let (socket, _) = listener.accept().await.unwrap();
        let mut corked = Corked::new(Stream::clear(socket));
        for _ in 0..3 {
            corked.begin_turn();
            let woken = Arc::<Woken>::default();
            let waker = Waker::from(Arc::clone(&woken));
            let mut cx = Context::from_waker(&waker);
            let mut written = 0;
            while let Poll::Ready(part) =
                Pin::new(&mut corked).poll_write(&mut cx, &[0; RECORD / 2])
            {
                written += part.unwrap();
            }
            assert!((IN_TURN..IN_TURN + RECORD).contains(&written), "{written}");
            assert!(woken.0.load(Relaxed));
        }
    }

    #[derive(Default)]
    struct Woken(AtomicBool);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.store(true, Relaxed);
        }
    }

    #[test]
    fn finds_the_first_reset_between_frames() {
        let headers = [&[0, 0, 3, 1, 4, 0, 0, 0, 1][..], &[3; 3]].concat();
        let reset = [0, 0, 4, RST_STREAM, 0, 0, 0, 0, 1, 0, 0, 0, 0];
        assert_eq!(reset_in(&reset), Some(0));
        assert_eq!(reset_in(&[&headers[..], &reset].concat()), Some(12));
        assert_eq!(
            reset_in(&[&headers[..], &headers, &reset[..4]].concat()),
            Some(24)
        );
        for end in 0..headers.len() {
            assert_eq!(reset_in(&headers[..end]), None);
        }
    }
}
