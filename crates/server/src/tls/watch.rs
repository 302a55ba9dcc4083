//! The stream's HTTP/2 part: counts frames, and ends connections that h2 would
//! keep.

use std::io::{self, IoSlice, Write};
use std::task::{Context, Poll};

use super::Stream;
use crate::tls::frames::Frames;

impl Stream {
    /// Counts the frames of HTTP/2 from now on.
    pub(crate) fn watch(&mut self, frames: Frames) {
        self.leave_http();
        self.frames = Some(Box::new(frames));
    }

    /// Notes the frames that h2 wrote.
    pub(super) fn note_sent(&mut self, bufs: &[IoSlice<'_>], mut n: usize) {
        let Some(frames) = &mut self.frames else {
            return;
        };
        for buf in bufs {
            let sent = buf.len().min(n);
            frames.sent(&buf[..sent], || self.timeouts.flowing());
            n -= sent;
        }
    }

    /// Returns whether h2 writes a new frame next.
    pub(super) fn is_between_frames(&self) -> bool {
        let frames = self.frames.as_ref();
        frames.is_some_and(|frames| frames.sent.is_between_frames())
    }

    /// Begins to close the connection of a client that misuses HTTP/2.
    pub(super) fn check_frames(&mut self) {
        let Some(frames) = self.frames.as_ref().filter(|_| !self.misused) else {
            return;
        };
        let waiting = self.timeouts.waiting_for_upstreams();
        if frames.is_misused(|| self.timeouts.flowing(), waiting) {
            tracing::debug!(
                "HTTP/2 connection closed: too many frames, a stuck answer, or too many bytes of bodies"
            );
            self.misused = true;
            self.timeouts.close();
        }
    }

    /// Registers the task that ends the connection if it is chosen to end. Returns whether
    /// it was chosen meanwhile.
    pub(super) fn wakes_at_end(&self, cx: &Context<'_>) -> bool {
        let frames = self.frames.as_ref().filter(|_| !self.misused);
        frames.is_some_and(|frames| frames.held.wake_at_end(cx.waker()))
    }

    /// Returns how many bytes h2 may still read. For a misusing client, that is
    /// the rest of the current frame: h2 treats an end within a frame as an
    /// error and sends no GOAWAY. Else there is no bound.
    pub(super) fn wanted(&self) -> usize {
        let frames = self.frames.as_ref().filter(|_| self.misused);
        frames.map_or(usize::MAX, |frames| frames.received.rest())
    }

    /// Returns whether to hide the client's end of the stream from h2, which
    /// would drop the answers still to be sent. The client may read on (RFC
    /// 8446, section 6.1).
    pub(super) fn keeps_end(&mut self, cx: &Context<'_>) -> bool {
        match &mut self.frames {
            Some(frames) if frames.has_answers() || self.timeouts.is_in_flight() => {
                self.timeouts.client_ended();
                frames.wake_when_answered(cx.waker());
                // A request may end without a frame: its client reset it.
                self.timeouts.wake_at_end(cx.waker());
                true
            }
            _ => false,
        }
    }

    /// Reads on while an upstream answers: hyper does not, between the request
    /// and its answer. Reads no further than to the next request.
    pub(super) fn look_for_end(&mut self, cx: &mut Context<'_>) {
        while !self.ended && self.unread.is_empty() && self.stash.is_empty() {
            match self.session.fill_buf() {
                Ok([]) => self.ended = true,
                Ok(_) => return,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    match self.poll_fill(cx) {
                        Poll::Ready(Ok(())) => {}
                        Poll::Ready(Err(_)) => self.ended = true,
                        Poll::Pending => return,
                    }
                }
                Err(_) => self.ended = true,
            }
        }
        if self.ended {
            self.timeouts.client_ended();
        }
    }

    /// Writes GOAWAY for a misusing client.
    pub(super) fn send_goaway(&mut self) -> io::Result<()> {
        let frames = self.frames.as_ref().filter(|_| self.misused);
        match frames.and_then(|frames| frames.goaway()) {
            Some(frame) => self.session.write_all(&frame),
            None => Ok(()),
        }
    }
}
