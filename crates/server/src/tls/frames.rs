//! Accounts for HTTP/2 frames: their cost, and the answers that are owed.
//!
//! h2 bounds streams and resets, but answers every PING and reads any number of
//! control frames. It also keeps the last piece of an answer whose window is
//! closed after hyper has dropped the stream. The frame heads in the plaintext
//! between h2 and TLS show both.

mod answers;
mod budget;
pub(crate) mod parser;

use std::sync::Arc;
use std::task::Waker;
use std::time::Duration;

use answers::Answers;
use budget::OF_CLIENTS;
pub(crate) use budget::{Budget, OF_RECORDS, OF_UPSTREAMS};
use parser::{DATA, HEADERS, Parser, RST_STREAM};

use crate::limits::bodies::{Held, block_of};

/// Frame counters of both directions of one HTTP/2 connection.
pub(crate) struct Frames {
    pub(super) received: Parser,
    pub(super) sent: Parser,
    budget: Budget,
    answers: Answers,
    /// The newest stream that the client opened.
    newest: u32,
    /// How long no frame of an answer may be sent once it has begun.
    patience: Duration,
    /// Wakes the reader when the last answer has ended.
    waker: Option<Waker>,
    /// Bytes of DATA frames that the client sent.
    data: u64,
    /// Count of the bytes that the connection holds.
    pub(super) held: Arc<Held>,
}

impl Frames {
    /// Makes the counters. An answer counts as stuck after `patience` without a
    /// frame. `held` counts the bytes of requests that nobody has taken.
    pub(crate) fn new(patience: Duration, held: Arc<Held>) -> Self {
        Self {
            received: Parser::server(),
            sent: Parser::client(),
            budget: Budget::new(&OF_CLIENTS),
            answers: Answers::default(),
            newest: 0,
            patience,
            waker: None,
            data: 0,
            held,
        }
    }

    /// Notes bytes that the client sent by `now`, measured since accept.
    pub(crate) fn received(&mut self, bytes: &[u8], now: Duration) {
        let Self {
            received,
            budget,
            answers,
            newest,
            data,
            ..
        } = self;
        let (before, mut blocks) = (*data, 0);
        received.feed(bytes, |head| {
            budget.received(head, || now);
            match head.kind {
                HEADERS if head.stream > *newest => {
                    *newest = head.stream;
                    answers.owe(head.stream);
                }
                RST_STREAM => answers.remove(head.stream),
                DATA => {
                    *data += u64::from(head.len);
                    blocks += block_of(head.len as usize);
                }
                _ => {}
            }
        });
        let came = self.data - before;
        if came > 0 {
            let came = usize::try_from(came).unwrap_or(usize::MAX);
            self.held.came(came, blocks, self.window());
        }
    }

    /// Returns the bytes of DATA frames that the client may send (RFC 9113, section 6.9).
    fn window(&self) -> u32 {
        let opened = u64::from(FIRST_WINDOW) + self.sent.opened();
        u32::try_from(opened.saturating_sub(self.data)).unwrap_or(u32::MAX)
    }

    /// Notes bytes sent to the client; `flowing` is the time in which the
    /// socket was not blocked.
    pub(crate) fn sent(&mut self, bytes: &[u8], flowing: impl Fn() -> Duration) {
        let Self {
            sent,
            budget,
            answers,
            ..
        } = self;
        let opened = sent.opened();
        sent.feed(bytes, |head| {
            budget.sent(head);
            answers.sent(head, &flowing);
        });
        if self.sent.opened() > opened {
            let window = self.window();
            let requests = CONNECTION_WINDOW.saturating_sub(window);
            self.held.announced(requests as usize, window);
        }
        if self.answers.is_empty()
            && let Some(waker) = self.waker.take()
        {
            waker.wake();
        }
    }

    /// Returns whether the connection holds too many bytes of bodies, the client sent more
    /// frames than its budget allows, or an answer is stuck that only closing the connection
    /// can end. `waiting` answers are
    /// silent since their upstreams are: which, is not known here.
    pub(crate) fn is_misused(&self, flowing: impl FnOnce() -> Duration, waiting: usize) -> bool {
        self.held.has_ended()
            || self.budget.is_spent()
            || self.answers.is_stuck(self.patience, flowing, waiting)
    }

    /// Registers a waker for when no answer is owed.
    pub(crate) fn wake_when_answered(&mut self, waker: &Waker) {
        self.waker = Some(waker.clone());
    }

    /// Returns whether answers are owed.
    pub(crate) fn has_answers(&self) -> bool {
        !self.answers.is_empty()
    }

    /// Makes a GOAWAY frame with ENHANCE_YOUR_CALM; None within another frame.
    pub(crate) fn goaway(&self) -> Option<[u8; 17]> {
        let mut frame = [0, 0, 8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 11];
        frame[9..13].copy_from_slice(&self.newest.to_be_bytes());
        self.sent.is_between_frames().then_some(frame)
    }
}

/// Bytes that a client may send before it hears of another window (RFC 9113, section
/// 6.9.2).
const FIRST_WINDOW: u32 = 65_535;

/// Bytes of all streams together: five bodies that nobody takes stall no other. What they
/// take of the memory, [`crate::limits::bodies`] bounds over all connections.
pub(crate) const CONNECTION_WINDOW: u32 = 12 << 20;

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;
    use crate::limits::bodies::Bodies;

    fn frame(kind: u8, flags: u8, stream: u8, len: u8) -> Vec<u8> {
        let mut frame = vec![0, 0, len, kind, flags, 0, 0, 0, stream];
        frame.resize(9 + usize::from(len), 0);
        frame
    }

    /// Makes counters that have seen requests on these streams.
    fn requested(streams: &[u8]) -> Frames {
        let held = Bodies::new(usize::MAX, Arc::default())
            .holder(IpAddr::from(Ipv4Addr::LOCALHOST).into());
        let mut frames = Frames::new(LIMIT, held);
        frames.received(&[0; parser::PREFACE], Duration::ZERO);
        for stream in streams {
            frames.received(&frame(HEADERS, 5, *stream, 20), Duration::ZERO);
        }
        frames
    }

    const LIMIT: Duration = Duration::from_secs(90);
    const PAST_LIMIT: Duration = Duration::from_secs(100);

    #[test]
    fn only_an_answer_that_is_begun_and_not_ended_gets_stuck() {
        let mut frames = requested(&[1, 3]);
        assert!(
            frames.has_answers() && !frames.is_misused(|| PAST_LIMIT, 0),
            "ours"
        );
        frames.sent(&frame(HEADERS, 4, 1, 30), || Duration::ZERO);
        frames.sent(&frame(HEADERS, 5, 3, 30), || Duration::ZERO);
        assert!(!frames.is_misused(|| LIMIT, 0));
        assert!(frames.is_misused(|| PAST_LIMIT, 0));
        assert!(!frames.is_misused(|| PAST_LIMIT, 1), "its upstream is");
        frames.sent(&frame(DATA, 0, 1, 200), || PAST_LIMIT);
        assert!(!frames.is_misused(|| PAST_LIMIT, 0), "progress");
        frames.sent(&frame(DATA, 1, 1, 0), || PAST_LIMIT);
        assert!(!frames.has_answers() && !frames.is_misused(|| PAST_LIMIT * 2, 0));
    }

    #[test]
    fn a_reset_of_either_side_ends_an_answer() {
        let sent = |frames: &mut Frames, bytes: &[u8], at| frames.sent(bytes, || at);
        for reset in [Frames::received, sent] {
            let mut frames = requested(&[1]);
            frames.sent(&frame(HEADERS, 4, 1, 30), || Duration::ZERO);
            assert!(frames.has_answers());
            reset(&mut frames, &frame(RST_STREAM, 0, 1, 4), Duration::ZERO);
            assert!(!frames.has_answers());
        }
    }

    #[test]
    fn goaway_stands_between_frames_and_names_the_newest_stream() {
        let mut frames = requested(&[7, 9]);
        let (begin, rest) = (frame(DATA, 0, 9, 20), || Duration::ZERO);
        frames.sent(&begin[..12], rest);
        assert_eq!(frames.goaway(), None);
        frames.sent(&begin[12..], rest);
        assert_eq!(frames.goaway().unwrap()[9..], [0, 0, 0, 9, 0, 0, 0, 11]);
    }
}
