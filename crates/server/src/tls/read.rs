//! Plaintext that hyper reads.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use hyper::rt::ReadBufCursor;

use super::Stream;
use super::lines::Passed;

impl Stream {
    /// Copies available plaintext. Returns false if more must be read first.
    fn take(&mut self, cursor: &mut ReadBufCursor<'_>) -> bool {
        if !self.unread.is_empty() {
            let n = self.unread.len().min(cursor.remaining());
            cursor.put_slice(&self.unread.split_to(n));
            return true;
        }
        let wanted = self.wanted();
        let Self {
            session,
            frames,
            timeouts,
            parser,
            unread,
            ..
        } = self;
        match session.fill_buf() {
            Ok([]) => self.ended = true,
            Ok(chunk) => {
                let n = chunk.len().min(cursor.remaining()).min(wanted);
                let n = match parser.pass(&chunk[..n], || timeouts.framing().take()) {
                    Passed::All(n) => n,
                    Passed::Head(n, has_length) => {
                        timeouts.framing().head_ended(has_length);
                        n
                    }
                    Passed::Refused(n) => {
                        cursor.put_slice(&chunk[..n]);
                        session.consume(n + 1);
                        *unread = REFUSED;
                        return n > 0 || self.take(cursor);
                    }
                };
                cursor.put_slice(&chunk[..n]);
                if let Some(frames) = frames {
                    frames.received(&chunk[..n], timeouts.elapsed());
                    timeouts.in_head(frames.received.is_in_head());
                }
                session.consume(n);
                return true;
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            // The stream ended without close_notify. HTTP frames its messages,
            // and detects truncated ones (RFC 9112, section 9.8).
            Err(_) => self.ended = true,
        }
        false
    }
}

impl hyper::rt::Read for Stream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut cursor: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        loop {
            this.check_frames();
            if this.wanted() == 0 {
                return Poll::Ready(Ok(()));
            }
            if this.take(&mut cursor) {
                this.timeouts.read();
                return Poll::Ready(Ok(()));
            }
            if this.ended {
                let kept = this.keeps_end(cx);
                return if kept {
                    Poll::Pending
                } else {
                    Poll::Ready(Ok(()))
                };
            }
            match this.poll_fill(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(broken)) => {
                    let _ = this.poll_send(cx)?;
                    return Poll::Ready(Err(broken.into()));
                }
                Poll::Pending => {
                    // Messages that rustls sends on its own, such as key
                    // updates, must not wait for the next request.
                    this.delays_tickets &= !this.timeouts.are_tickets_due();
                    if this.session.wants_write() && !this.delays_tickets {
                        let _ = this.poll_send(cx)?;
                    }
                    if this.wakes_at_end(cx) {
                        continue;
                    }
                    return Poll::Pending;
                }
            }
        }
    }
}

/// Stands for the rest of a head, trailers or the line before a chunk from a refused
/// byte on. hyper takes no NUL in heads and trailers, and no LF without CR in the
/// line before a chunk, where it does take NUL: it answers 400 and closes. Without an
/// empty line it would wait for more.
const REFUSED: Bytes = Bytes::from_static(b"\0\n\r\n\r\n");
