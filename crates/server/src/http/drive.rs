//! Polls a connection, with one timer for all of its limits.

use std::future::{Future, poll_fn};
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::{Instant, sleep_until, timeout};

use crate::timeouts::{ConnTimeouts, Due, LINGER, Limits};
use crate::tls::Stream;

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

/// What a connection is held to.
pub(super) struct Held<'a> {
    pub(super) timeouts: Arc<ConnTimeouts>,
    pub(super) limits: Limits,
    pub(super) drain: &'a Drain,
}

/// How far a connection was driven.
pub(super) enum Driven<T> {
    /// To its end.
    Ended(T),
    /// A limit cut it off.
    Cut,
    /// No request has come for [`PARK_DELAY`], and none is begun. Only of HTTP/1.1.
    Idle,
}

impl Held<'_> {
    /// Waits for bytes of the client without hyper. False if a limit or the
    /// drain came first; then the stream is closed.
    pub(super) async fn is_asked_again(&self, stream: &mut Stream) -> bool {
        let due = self.timeouts.due(&self.limits);
        let limit = async {
            match due {
                Some((at, _)) => sleep_until(at).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = poll_fn(|cx| stream.poll_readable(cx)) => return true,
            () = limit => {}
            // A client in front of its first request gets it answered.
            () = self.drain.begun() => if !self.timeouts.has_begun() {
                return true;
            }
        }
        self.timeouts.close();
        // A client that does not take close_notify does not get it.
        let _ = timeout(LINGER, poll_fn(|cx| stream.poll_close(cx))).await;
        false
    }
}

/// Drives `connection`.
///
/// The timer is set back only for a limit that comes sooner; where the limit
/// has moved away since, it fires, finds nothing and is set again. A request
/// on a kept-alive connection so leaves it alone.
pub(super) async fn drive<C: Future>(
    mut connection: Pin<&mut C>,
    end_gracefully: impl Fn(Pin<&mut C>),
    held: &Held<'_>,
) -> Driven<C::Output> {
    let Held {
        timeouts,
        limits,
        drain,
    } = held;
    let mut draining = pin!(drain.begun());
    let mut drained = false;
    let mut ending = false;
    let recheck = CHECK_INTERVAL.min(limits.body / 2);
    let mut park = PARK_DELAY;
    let mut timer = pin!(sleep_until(Instant::now() + TICKET_DELAY));
    poll_fn(|cx| {
        loop {
            if let Poll::Ready(ended) = connection.as_mut().poll(cx) {
                return Poll::Ready(Driven::Ended(ended));
            }
            drained = drained || draining.as_mut().poll(cx).is_ready();
            if drained || timeouts.is_winding_down() {
                timeouts.close_if_idle();
                // A client in front of its first request gets it answered.
                if !ending && timeouts.has_begun() {
                    ending = true;
                    end_gracefully(connection.as_mut());
                    continue;
                }
            }
            let due = timeouts.due(limits);
            let look = timeouts.has_streams().then(|| Instant::now() + recheck);
            let first = due.map(|(at, _)| at).into_iter().chain(look).min();
            if let Some(at) = first.filter(|at| *at < timer.deadline()) {
                timer.as_mut().reset(at);
            }
            if timer.as_mut().poll(cx).is_pending() {
                return Poll::Pending;
            }
            timeouts.check_streams();
            let now = Instant::now();
            match due {
                Some((at, Due::Ask)) if at <= now => {
                    // A write that is blocked is tried again, and answers.
                    if !timeouts.ask_progress() {
                        return Poll::Ready(Driven::Cut);
                    }
                    timer.as_mut().reset(now + recheck);
                    continue;
                }
                Some((at, Due::Drop)) if at <= now => return Poll::Ready(Driven::Cut),
                Some((at, Due::Close)) if at <= now => {
                    timeouts.close();
                    ending = true;
                    end_gracefully(connection.as_mut());
                    timer.as_mut().reset(now + TICKET_DELAY);
                }
                _ if !drained && timeouts.has_been_idle_for(PARK_DELAY) => {
                    return Poll::Ready(Driven::Idle);
                }
                _ => {
                    // A busy connection is looked at ever less often.
                    let next = first.unwrap_or(now + recheck);
                    timer.as_mut().reset(next.min(now + park));
                    park = CHECK_INTERVAL.min(park * 2);
                }
            }
            // The first time it fires, tickets have waited long enough.
            timeouts.be_impatient();
        }
    })
    .await
}

/// How long no request has come when hyper is given up with its two buffers of
/// 8 KiB: longer than a busy client's pauses, since it is made anew for the
/// next one (1 µs).
const PARK_DELAY: Duration = Duration::from_millis(100);

/// How long session tickets wait for the first answer to ride with. Clients
/// send their request at once; one that does not misses nothing.
const TICKET_DELAY: Duration = Duration::from_millis(20);

/// How often a connection is looked at whose next step is ours.
const CHECK_INTERVAL: Duration = Duration::from_secs(5);
