//! Wakes of the task that drives an HTTP/1.1 connection to an upstream.
//!
//! hyper wakes that task whenever a piece of a body is taken. After the last piece it
//! would find nothing to do: a fifth of all times that tasks run for a small answer.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicU8, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};

/// Wakes of one connection's task. Relaxed ordering suffices: the tasks of a worker run
/// on its thread.
#[derive(Debug, Default)]
pub(in crate::upstream) struct Wakes {
    /// Set when the task first runs. The waker of a task stays the same.
    task: OnceLock<Waker>,
    state: AtomicU8,
}

impl Wakes {
    /// Drives a connection to its end.
    pub(in crate::upstream) async fn drive<C: Future>(self: Arc<Self>, connection: C) -> C::Output {
        let waker = Waker::from(Arc::clone(&self));
        let mut connection = pin!(connection);
        poll_fn(|cx| {
            self.task.get_or_init(|| cx.waker().clone());
            connection.as_mut().poll(&mut Context::from_waker(&waker))
        })
        .await
    }

    /// Calls `take`, which takes a piece of a body and says whether that was the last
    /// one. If so, the task is not woken for it.
    pub(in crate::upstream) fn while_taking<T>(&self, take: impl FnOnce() -> (T, bool)) -> T {
        self.state.store(TAKING, Relaxed);
        let (taken, is_last) = take();
        if self.state.swap(AWAKE, Relaxed) == HELD && !is_last {
            self.wake_task();
        }
        taken
    }

    fn wake_task(&self) {
        if let Some(task) = self.task.get() {
            task.wake_by_ref();
        }
    }
}

impl Wake for Wakes {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        match self.state.load(Relaxed) {
            AWAKE => self.wake_task(),
            _ => self.state.store(HELD, Relaxed),
        }
    }
}

/// Wakes are passed on.
const AWAKE: u8 = 0;
/// A piece of a body is being taken.
const TAKING: u8 = 1;
/// Meanwhile the task was to be woken.
const HELD: u8 = 2;

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::sync::atomic::AtomicUsize;

    use futures_util::FutureExt as _;

    use super::*;

    #[derive(Default)]
    struct Count(AtomicUsize);

    impl Wake for Count {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Relaxed);
        }
    }

    #[test]
    fn only_the_last_piece_wakes_no_task() {
        let (wakes, count) = (Arc::new(Wakes::default()), Arc::new(Count::default()));
        let task = Waker::from(Arc::clone(&count));
        let mut driven = Box::pin(Arc::clone(&wakes).drive(pending::<()>()));
        let polled = driven.poll_unpin(&mut Context::from_waker(&task));
        assert!(polled.is_pending());
        let hypers = Waker::from(Arc::clone(&wakes));
        let woken = || count.0.swap(0, Relaxed);
        hypers.wake_by_ref();
        assert_eq!(woken(), 1);
        wakes.while_taking(|| (hypers.wake_by_ref(), true));
        assert_eq!(woken(), 0);
        wakes.while_taking(|| (hypers.wake_by_ref(), false));
        assert_eq!(woken(), 1);
        wakes.while_taking(|| ((), false));
        assert_eq!(woken(), 0);
        hypers.wake();
        assert_eq!(woken(), 1);
    }
}
