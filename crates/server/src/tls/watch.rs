//! What the stream does for HTTP/2 alone: it counts frames, and ends what h2
//! would keep.

use std::io::{self, IoSlice, Write};
use std::task::Context;

use super::Stream;
use crate::frames::Frames;

impl Stream {
    /// Counts the frames of HTTP/2 from now on.
    pub(crate) fn watch(&mut self, frames: Frames) {
        self.frames = Some(Box::new(frames));
    }

    /// Notes what HTTP/2 wrote.
    pub(super) fn note_sent(&mut self, bufs: &[IoSlice<'_>], mut n: usize) {
        let Some(frames) = &mut self.frames else {
            return;
        };
        let flowing = self.timeouts.flowing();
        for buf in bufs {
            let sent = buf.len().min(n);
            frames.sent(&buf[..sent], flowing);
            n -= sent;
        }
    }

    /// Sends a client of HTTP/2 away that asks too much of the connection.
    pub(super) fn check_frames(&mut self) {
        let Some(frames) = self.frames.as_ref().filter(|_| !self.misused) else {
            return;
        };
        if frames.is_misused(self.timeouts.flowing()) {
            tracing::debug!("a client of HTTP/2 is sent away: too many frames, or a stuck answer");
            self.misused = true;
            self.timeouts.close();
        }
    }

    /// Bytes that HTTP/2 still gets of a client that is sent away: those of a
    /// frame that has begun, since h2 takes an end within one for a fault and
    /// says nothing. Any number of another client.
    pub(super) fn wanted(&self) -> usize {
        let frames = self.frames.as_ref().filter(|_| self.misused);
        frames.map_or(usize::MAX, |frames| frames.rest())
    }

    /// Whether the client's end of the stream is kept from HTTP/2, which would
    /// give up the answers that are still to be sent (RFC 8446, section 6.1,
    /// lets the client read on).
    pub(super) fn keeps_end(&mut self, cx: &Context<'_>) -> bool {
        match &mut self.frames {
            Some(frames) if frames.has_answers() || self.timeouts.is_in_flight() => {
                frames.wake_when_answered(cx.waker());
                true
            }
            _ => false,
        }
    }

    /// Writes GOAWAY for a client that is sent away.
    pub(super) fn send_goaway(&mut self) -> io::Result<()> {
        let frames = self.frames.as_ref().filter(|_| self.misused);
        match frames.and_then(|frames| frames.goaway()) {
            Some(frame) => self.tls.writer().write_all(&frame),
            None => Ok(()),
        }
    }
}
