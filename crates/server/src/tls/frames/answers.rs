//! Answers that are owed to the requests of an HTTP/2 connection.

use std::time::Duration;

use super::parser::{DATA, HEADERS, Head, RST_STREAM};

/// Answers that are owed, by stream.
#[derive(Default)]
pub(super) struct Answers {
    owed: Vec<Answer>,
    /// Number of those that have begun. Most answers end in the write that begins them:
    /// seldom is one looked for.
    begun: usize,
}

struct Answer {
    stream: u32,
    /// When its last frame was sent, if it has begun.
    silent: Option<Duration>,
}

impl Answers {
    /// Adds the answer to a request.
    pub(super) fn owe(&mut self, stream: u32) {
        if self.owed.len() < MAX_ANSWERS {
            let silent = None;
            self.owed.push(Answer { stream, silent });
        }
    }

    /// Removes the answer of a stream, which has ended.
    pub(super) fn remove(&mut self, stream: u32) {
        if let Some(index) = self.find(stream) {
            let answer = self.owed.swap_remove(index);
            self.begun -= usize::from(answer.silent.is_some());
        }
    }

    /// Notes a frame that was sent.
    pub(super) fn sent(&mut self, head: Head, now: impl FnOnce() -> Duration) {
        match head.kind {
            RST_STREAM => self.remove(head.stream),
            HEADERS | DATA if head.ends_stream() => self.remove(head.stream),
            HEADERS | DATA => {
                if let Some(index) = self.find(head.stream) {
                    let before = self.owed[index].silent.replace(now());
                    self.begun += usize::from(before.is_none());
                }
            }
            _ => {}
        }
    }

    /// Returns whether more answers that have begun got no frame for `patience` than
    /// wait for their upstreams.
    pub(super) fn is_stuck(
        &self,
        patience: Duration,
        now: impl FnOnce() -> Duration,
        waiting: usize,
    ) -> bool {
        if self.begun <= waiting {
            return false;
        }
        let now = now();
        let silent = self.owed.iter().filter_map(|answer| answer.silent);
        let stuck = silent.filter(|since| now.saturating_sub(*since) > patience);
        stuck.count() > waiting
    }

    pub(super) fn is_empty(&self) -> bool {
        self.owed.is_empty()
    }

    fn find(&self, stream: u32) -> Option<usize> {
        self.owed.iter().position(|answer| answer.stream == stream)
    }
}

/// Bound on owed answers: more than the 100 open streams, to include streams
/// that are being refused.
const MAX_ANSWERS: usize = 256;
