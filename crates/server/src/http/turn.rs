//! Turns of connections whose clients send many requests at once.

use std::future::poll_fn;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::task::Poll;

use http::header::{HeaderMap, HeaderValue};

/// Turns of a connection. In each, one answer of HTTP/1.1 begins, or [`AT_ONCE`] of HTTP/2,
/// fewer if their fields are large.
///
/// hyper answers up to 16 requests in a poll of HTTP/1.1, and begins as many streams of HTTP/2
/// as came. A request of another client would wait for all of them, of each such connection.
/// Requests that come alone never wait.
///
/// Relaxed ordering suffices: all tasks of a connection run on its worker's thread.
#[derive(Debug, Default)]
pub(super) struct Turn {
    number: AtomicU32,
    begun: AtomicU32,
}

impl Turn {
    /// Begins the next turn: the worker has polled all that was ready in the last one.
    pub(super) fn begin(&self) {
        self.number
            .store(self.number.load(Relaxed).wrapping_add(1), Relaxed);
        self.begun.store(0, Relaxed);
    }

    /// Resolves when an answer may begin.
    pub(super) async fn take(&self, http1: bool) {
        let most = if http1 { 1 } else { AT_ONCE };
        let mut waited = None;
        poll_fn(|cx| {
            let number = self.number.load(Relaxed);
            // A stream that waits is polled behind all that was ready. The connection may not
            // be polled meanwhile.
            if waited == Some(number) {
                self.begin();
            }
            let begun = self.begun.load(Relaxed);
            if begun < most {
                self.begun.store(begun + 1, Relaxed);
                return Poll::Ready(());
            }
            waited = Some(number);
            cx.waker().wake_by_ref();
            Poll::Pending
        })
        .await;
    }

    /// Counts an answer of HTTP/2 with these fields, every 512 bytes as an answer more.
    pub(super) fn charge(&self, fields: &HeaderMap) {
        let bytes: usize = fields.values().map(HeaderValue::len).sum();
        let more = u32::try_from(bytes / 512).unwrap_or(AT_ONCE);
        let begun = self.begun.load(Relaxed).saturating_add(more);
        self.begun.store(begun, Relaxed);
    }
}

/// Small answers of HTTP/2 that begin in a turn. What they write then leaves in one send.
const AT_ONCE: u32 = 32;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::header::X_CONTENT_TYPE_OPTIONS;

    use super::*;

    /// Returns how many of a hundred answers, with values of this size, had begun at each poll
    /// of another task.
    async fn begun_at_each_poll(http1: bool, bytes: usize) -> Vec<u32> {
        let (turn, begun) = (Arc::<Turn>::default(), Arc::<AtomicU32>::default());
        for _ in 0..100 {
            let (turn, begun) = (Arc::clone(&turn), Arc::clone(&begun));
            tokio::spawn(async move {
                turn.take(http1).await;
                begun.fetch_add(1, Relaxed);
                let value = HeaderValue::from_bytes(&vec![b'x'; bytes]).unwrap();
                turn.charge(&HeaderMap::from_iter([(X_CONTENT_TYPE_OPTIONS, value)]));
            });
        }
        let mut seen = Vec::new();
        let other = poll_fn(move |cx| {
            seen.push(begun.load(Relaxed));
            match seen.last() {
                Some(100) => Poll::Ready(std::mem::take(&mut seen)),
                _ => {
                    cx.waker().wake_by_ref();
                    Poll::Pending
                }
            }
        });
        tokio::spawn(other).await.unwrap()
    }

    #[tokio::test]
    async fn others_are_polled_after_a_few_answers() {
        let one_by_one: Vec<_> = (1..=100).collect();
        assert_eq!(begun_at_each_poll(true, 20).await, one_by_one);
        assert_eq!(begun_at_each_poll(false, 20).await, [32, 64, 96, 100]);
        let by_four: Vec<_> = (4..=100).step_by(4).collect();
        assert_eq!(begun_at_each_poll(false, 5_000).await, by_four);
        assert_eq!(begun_at_each_poll(false, 25_000).await, one_by_one);
    }

    #[tokio::test]
    async fn a_poll_of_the_connection_begins_a_turn() {
        let turn = Turn::default();
        let mut polls = 0;
        for _ in 0..3 {
            turn.begin();
            let mut taken = Box::pin(turn.take(true));
            poll_fn(|cx| {
                polls += 1;
                taken.as_mut().poll(cx)
            })
            .await;
        }
        assert_eq!(polls, 3, "none waits");
    }
}
