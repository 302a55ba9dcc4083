//! Who owes the next byte of a request and of its answer.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::task_local;
use tokio::time::Instant;

use super::moment::{Start, millis};

task_local! {
    static FLOW: Arc<Flow>;
}

/// State of a request: which party owes the next byte of each direction. Every time limit
/// of a body is read from here. Over HTTP/2 each stream has a flow. Over HTTP/1.1 the
/// connection has one, since its requests follow each other.
///
/// | | we | the client | the upstream |
/// | --- | --- | --- | --- |
/// | body | there is none | an answer or an upstream waits for it | has what came |
/// | answer | make it | leaves a piece of it untaken (HTTP/2) | sends nothing of it |
#[derive(Debug, Default)]
pub(crate) struct Flow {
    start: Start,
    body: Owed,
    /// The client's waits begin in the connection's flowing time: while the socket is
    /// blocked, the stream's window is not the cause.
    answer: Owed,
}

/// Party that owes the next byte, and since when, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owes {
    Us,
    Client(u64),
    Upstream(u64),
}

impl Flow {
    /// Runs the future of a stream that has this flow.
    pub(crate) fn scope<F: Future>(self: Arc<Self>, stream: F) -> impl Future<Output = F::Output> {
        FLOW.scope(self, stream)
    }

    /// Returns the flow of the stream that this task serves; none over HTTP/1.1.
    pub(crate) fn of_stream() -> Option<Arc<Self>> {
        FLOW.try_with(Arc::clone).ok()
    }

    /// Notes that more of the body is wanted than the client has sent: by an upstream, or
    /// before anybody is asked.
    pub(crate) fn want_body(&self) {
        if !matches!(self.body.get(), Owes::Client(_)) {
            self.body.set(Owes::Client(self.start.now()));
        }
    }

    /// Notes that the upstream has what came of the body, and is to go on.
    pub(crate) fn pass_body(&self) {
        self.body.set(Owes::Upstream(self.start.now()));
    }

    /// Notes that the answer goes on without more of the body.
    pub(crate) fn leave_body(&self) {
        if matches!(self.body.get(), Owes::Client(_)) {
            self.pass_body();
        }
    }

    /// Returns since when the client owes a piece of the body.
    pub(crate) fn client_owes_body(&self) -> Option<Instant> {
        match self.body.get() {
            Owes::Client(since) => Some(self.start.at(since)),
            Owes::Us | Owes::Upstream(_) => None,
        }
    }

    /// Returns since when the upstream has all that came of the body; now, while the
    /// client owes a piece of it.
    pub(crate) fn body_passed_at(&self) -> Instant {
        match self.body.get() {
            Owes::Upstream(since) => self.start.at(since),
            Owes::Us | Owes::Client(_) => Instant::now(),
        }
    }

    /// Begins the wait for the client's next piece anew: bytes came, or until now, other
    /// bodies of the connection filled the window that it needs.
    pub(crate) fn postpone(&self) {
        if matches!(self.body.get(), Owes::Client(_)) {
            self.body.set(Owes::Client(self.start.now()));
        }
    }

    /// Notes that a piece of the answer waits until the client has room for it.
    pub(crate) fn offer(&self, flowing: Duration) {
        self.answer.set(Owes::Client(millis(flowing)));
    }

    /// Notes that the client had room.
    pub(crate) fn took(&self) {
        if matches!(self.answer.get(), Owes::Client(_)) {
            self.answer.set(Owes::Us);
        }
    }

    /// Returns whether the client has sent nothing of a body that an upstream would take,
    /// or taken nothing of the answer, for `limit`.
    pub(crate) fn client_is_late(&self, flowing: Duration, limit: Duration) -> bool {
        let over = |now: u64, since| now.saturating_sub(since) >= millis(limit);
        let body = matches!(self.body.get(), Owes::Client(since) if over(self.start.now(), since));
        body || matches!(self.answer.get(), Owes::Client(since) if over(millis(flowing), since))
    }

    /// Notes that the upstream sends nothing of the answer. Returns false if that was noted
    /// before.
    pub(super) fn await_answer(&self) -> bool {
        let sent = !matches!(self.answer.get(), Owes::Upstream(_));
        if sent {
            self.answer.set(Owes::Upstream(self.start.now()));
        }
        sent
    }

    /// Notes that the upstream sent a piece of the answer. Returns false if that was noted
    /// before.
    pub(super) fn has_answer(&self) -> bool {
        let waited = matches!(self.answer.get(), Owes::Upstream(_));
        if waited {
            self.answer.set(Owes::Us);
        }
        waited
    }

    /// Returns since when the upstream sends nothing of the answer.
    pub(crate) fn upstream_owes_answer(&self) -> Option<Instant> {
        match self.answer.get() {
            Owes::Upstream(since) => Some(self.start.at(since)),
            Owes::Us | Owes::Client(_) => None,
        }
    }
}

/// [`Owes`] in one atomic: 0 is `Us`; else the last bit tells the upstream from the
/// client. Relaxed suffices: all tasks of a connection run on its worker's thread. Another
/// worker that looks how long a body waits may see the state of a moment ago.
#[derive(Debug, Default)]
struct Owed(AtomicU64);

impl Owed {
    fn set(&self, owes: Owes) {
        let value = match owes {
            Owes::Us => 0,
            Owes::Client(since) => (since + 1) << 1,
            Owes::Upstream(since) => (since + 1) << 1 | 1,
        };
        self.0.store(value, Relaxed);
    }

    fn get(&self) -> Owes {
        let value = self.0.load(Relaxed);
        match ((value >> 1).checked_sub(1), value & 1) {
            (None, _) => Owes::Us,
            (Some(since), 0) => Owes::Client(since),
            (Some(since), _) => Owes::Upstream(since),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const LIMIT: Duration = Duration::from_secs(30);

    #[test]
    fn what_is_owed_fits_one_atomic() {
        let owed = Owed::default();
        assert_eq!(owed.get(), Owes::Us);
        for owes in [
            Owes::Client(0),
            Owes::Upstream(0),
            Owes::Client(millis(Duration::MAX)),
            Owes::Upstream(millis(Duration::MAX)),
            Owes::Us,
        ] {
            owed.set(owes);
            assert_eq!(owed.get(), owes);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_late_with_a_body_that_is_wanted() {
        let flow = Flow::default();
        let is_late = || flow.client_is_late(Duration::ZERO, LIMIT);
        advance(LIMIT).await;
        assert!(!is_late(), "nobody wants it");
        flow.want_body();
        advance(LIMIT / 2).await;
        flow.want_body();
        assert_eq!(flow.body_passed_at(), Instant::now());
        advance(LIMIT / 2).await;
        assert!(is_late());
        flow.postpone();
        assert!(!is_late(), "its window was closed");
        flow.pass_body();
        let passed = Instant::now();
        advance(LIMIT).await;
        assert!(!is_late(), "the upstream does not go on");
        assert_eq!(flow.body_passed_at(), passed);
        assert_eq!(flow.client_owes_body(), None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_is_late_with_an_answer_in_flowing_time() {
        let flow = Flow::default();
        flow.offer(Duration::from_secs(1));
        advance(LIMIT * 2).await;
        assert!(!flow.client_is_late(Duration::from_secs(30), LIMIT));
        assert!(flow.client_is_late(Duration::from_secs(31), LIMIT));
        flow.took();
        assert!(!flow.client_is_late(Duration::from_secs(99), LIMIT));
        assert!(flow.await_answer());
        assert!(!flow.await_answer(), "it was silent before");
        flow.took();
        assert_eq!(flow.upstream_owes_answer(), Some(Instant::now()));
        assert!(flow.has_answer());
        assert!(!flow.has_answer());
    }
}
