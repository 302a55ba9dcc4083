//! Polls a connection, with one timer for all of its limits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until};

use crate::pace::{Due, Limits, Pace};

/// Tells the connections of a worker to come to their end.
#[derive(Debug, Default)]
pub(crate) struct Drain {
    begun: AtomicBool,
    notify: Notify,
}

impl Drain {
    pub(crate) fn begin(&self) {
        self.begun.store(true, Ordering::Release);
        self.notify.notify_waiters();
    }

    async fn begun(&self) {
        // Made before the flag is read: no notification falls in between.
        let notified = self.notify.notified();
        if !self.begun.load(Ordering::Acquire) {
            notified.await;
        }
    }
}

/// Runs `connection` to its end. None if a limit cut it off.
///
/// The timer is set back only for a limit that comes sooner; where the limit
/// has moved away since, it fires, finds nothing and is set again. A request
/// on a kept-alive connection so leaves it alone.
pub(super) async fn drive<C: Future>(
    connection: C,
    end_gracefully: impl Fn(Pin<&mut C>),
    pace: &Pace,
    limits: &Limits,
    drain: &Drain,
) -> Option<C::Output> {
    let mut connection = pin!(connection);
    let mut draining = pin!(drain.begun());
    let mut drained = false;
    let mut ending = false;
    let recheck = RECHECK.min(limits.body / 2);
    let mut timer = pin!(sleep_until(Instant::now() + PATIENCE));
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(Some(ended));
            }
            drained = drained || draining.as_mut().poll(cx).is_ready();
            if drained || pace.is_winding_down() {
                pace.close_if_idle();
                // A client in front of its first request gets it answered.
                if !ending && pace.has_begun() {
                    ending = true;
                    end_gracefully(connection.as_mut());
                    continue;
                }
            }
            let due = pace.due(limits);
            let look = pace.has_streams().then(|| Instant::now() + recheck);
            let first = due.map(|(at, _)| at).into_iter().chain(look).min();
            if let Some(at) = first.filter(|at| *at < timer.deadline()) {
                timer.as_mut().reset(at);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            pace.look();
            let now = Instant::now();
            match due {
                Some((at, Due::Ask)) if at <= now => {
                    // A write that is blocked is tried again, and answers.
                    if !pace.ask_progress() {
                        return Poll::Ready(None);
                    }
                    timer.as_mut().reset(now + recheck);
                    continue;
                }
                Some((at, Due::Drop)) if at <= now => return Poll::Ready(None),
                Some((at, Due::Close)) if at <= now => {
                    pace.close();
                    ending = true;
                    end_gracefully(connection.as_mut());
                    timer.as_mut().reset(now + PATIENCE);
                }
                _ => timer.as_mut().reset(first.unwrap_or(now + recheck)),
            }
            // The first time it fires, tickets have waited long enough.
            pace.be_impatient();
        }
    })
    .await
}

/// How long session tickets wait for the first answer to ride with. Clients
/// send their request at once; one that does not misses nothing.
const PATIENCE: Duration = Duration::from_millis(20);

/// How often a connection is looked at whose next step is ours.
const RECHECK: Duration = Duration::from_secs(5);
