//! A few threads of a store's own, with one bounded queue.
//!
//! Blocking reads run here, so that a stalled disk stalls no connection. A
//! call costs one hop each way: a push that wakes an idle thread, and a
//! oneshot back. A panic fails the call that it happened in, and nothing else.

use std::any::Any;
use std::fmt;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::thread;

use crossbeam_channel::Sender;
use tokio::sync::oneshot;

use crate::fault::unavailable;
use sekisho_certs::store::{Result, StoreError};

/// Threads that each own a state `S` and take jobs from one queue. They end
/// when this is dropped, each after the job it has.
pub(crate) struct Threads<S> {
    jobs: Sender<Job<S>>,
}

type Job<S> = Box<dyn FnOnce(&mut S) + Send>;

impl<S: Send + 'static> Threads<S> {
    /// Starts one thread per state. At most `depth` jobs wait.
    pub(crate) fn start(
        name: &str,
        states: impl IntoIterator<Item = S>,
        depth: usize,
    ) -> io::Result<Self> {
        let (jobs, waiting) = crossbeam_channel::bounded::<Job<S>>(depth);
        for mut state in states {
            let waiting = waiting.clone();
            let work = move || waiting.iter().for_each(|job| job(&mut state));
            thread::Builder::new().name(name.to_owned()).spawn(work)?;
        }
        Ok(Self { jobs })
    }

    /// Runs `work` on the next free thread. Dropping the future takes back work
    /// that has not begun; work that has begun runs to its end.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut S) -> Result<T> + Send + 'static,
    ) -> Result<T> {
        let (answer, answered) = oneshot::channel();
        let job: Job<S> = Box::new(move |state| {
            if answer.is_closed() {
                return;
            }
            // A panic closes the connection that the call used.
            let done = catch_unwind(AssertUnwindSafe(|| work(state)));
            // The caller may have given up meanwhile.
            let _ = answer.send(done.unwrap_or_else(|panic| Err(panicked(&*panic))));
        });
        // The threads only end when this does, so a push fails on a full queue.
        self.jobs
            .try_send(job)
            .map_err(|_| StoreError::Overloaded)?;
        answered
            .await
            .unwrap_or_else(|_| Err(unavailable("a store's thread ended")))
    }
}

/// Words a panic as the failure of one call: the data of one host may have led to
/// it, so it is no outage of the store.
fn panicked(panic: &(dyn Any + Send)) -> StoreError {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
    let panic = text.unwrap_or("without a message");
    tracing::error!(panic, "a store call panicked and failed; please report it");
    StoreError::Failed(format!("it panicked: {panic}").into())
}

impl<S> fmt::Debug for Threads<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("waiting", &self.jobs.len())
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;

    #[tokio::test]
    async fn a_full_queue_is_overloaded() {
        let threads = Threads::start("test", [()], 2).unwrap();
        let (release, released) = mpsc::channel::<()>();
        let (began, begun) = mpsc::channel::<()>();
        let running = threads.run(move |()| {
            began.send(()).unwrap();
            released.recv().unwrap();
            Ok(1)
        });
        let mut running = Box::pin(running);
        assert!(futures_poll(&mut running).await);
        begun.recv().unwrap();
        let mut second = Box::pin(threads.run(|()| Ok(2)));
        let mut third = Box::pin(threads.run(|()| Ok(3)));
        assert!(futures_poll(&mut second).await);
        assert!(futures_poll(&mut third).await);
        let refused = threads.run(|()| Ok(4)).await;
        assert!(matches!(refused, Err(StoreError::Overloaded)));
        release.send(()).unwrap();
        assert_eq!(running.await.unwrap(), 1);
        assert_eq!(second.await.unwrap() + third.await.unwrap(), 5);
    }

    /// Found by review: the only thread ended, and every later call with it.
    #[tokio::test]
    async fn a_panic_fails_its_call_alone() {
        let threads = Threads::start("test", [0_u32], 8).unwrap();
        for round in 1..=3 {
            let failed = threads.run::<()>(|_| panic!("a bad row")).await;
            let text = failed.unwrap_err().to_string();
            assert!(text.contains("a bad row"), "{text}");
            let counted = threads.run(|count| {
                *count += 1;
                Ok(*count)
            });
            assert_eq!(counted.await.unwrap(), round);
        }
    }

    #[tokio::test]
    async fn a_call_that_was_given_up_does_not_run() {
        let threads = Threads::start("test", [0_u32], 8).unwrap();
        let (release, released) = mpsc::channel::<()>();
        let mut running = Box::pin(threads.run(move |_| {
            released.recv().unwrap();
            Ok(())
        }));
        assert!(futures_poll(&mut running).await);
        let mut dropped = Box::pin(threads.run(|count: &mut u32| {
            *count += 1;
            Ok(())
        }));
        assert!(futures_poll(&mut dropped).await);
        drop(dropped);
        release.send(()).unwrap();
        running.await.unwrap();
        assert_eq!(threads.run(|count| Ok(*count)).await.unwrap(), 0);
    }

    /// Polls once; says whether it is still pending.
    async fn futures_poll<F: Future + Unpin>(future: &mut F) -> bool {
        let mut future = std::pin::Pin::new(future);
        std::future::poll_fn(|cx| std::task::Poll::Ready(future.as_mut().poll(cx).is_pending()))
            .await
    }
}
