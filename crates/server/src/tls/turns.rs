//! Turns of connections whose clients send faster than the worker takes it.
//!
//! A worker needs longer to decrypt a body and pass it on than a client needs to send it.
//! Sixty-four clients that never pause would each keep the worker busy for one poll of
//! their connection, and a request of another client would wait for all of them.
//!
//! Therefore a connection queues once it has read [`AT_ONCE`] without finding its socket
//! empty. [`AT_A_TIME`] connections of the queue read between two looks of the worker at
//! its sockets. A client that sends no more than the worker takes never queues. Uploads
//! that queue share the worker by connections, not by client networks: many of one network
//! slow other uploads that queue, and nothing else.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::sync::oneshot;
use tokio::task::yield_now;

/// Bytes that a connection has read since its socket was last empty.
#[derive(Debug, Default)]
pub(super) struct Bulk {
    read: usize,
    /// Its place in the worker's queue.
    turn: Option<oneshot::Receiver<()>>,
}

impl Bulk {
    /// Resolves when the connection may read from its socket.
    pub(super) fn poll_turn(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        if self.read >= AT_ONCE {
            let turn = self.turn.get_or_insert_with(queue);
            // The sender is dropped only with the runtime: the connection ends then, too.
            let _ = ready!(Pin::new(turn).poll(cx));
            *self = Self::default();
        }
        Poll::Ready(())
    }

    /// Notes that the socket held this many bytes.
    pub(super) fn note(&mut self, read: usize) {
        self.read += read;
    }

    /// Notes that the socket was empty.
    pub(super) fn pause(&mut self) {
        self.read = 0;
    }
}

/// Takes a place at the end of this worker's queue.
fn queue() -> oneshot::Receiver<()> {
    let (sender, receiver) = oneshot::channel();
    let is_first = WAITING.with_borrow_mut(|waiting| {
        waiting.push_back(sender);
        waiting.len() == 1
    });
    if is_first {
        tokio::spawn(give_turns(Emptied));
    }
    receiver
}

/// Gives turns until nobody waits.
async fn give_turns(_emptied: Emptied) {
    loop {
        // Goes on when each task that was ready has run, and the worker has looked at
        // its sockets.
        yield_now().await;
        if WAITING.with_borrow_mut(give) {
            return;
        }
    }
}

/// Gives the next turns. Returns whether nobody waits any more.
fn give(waiting: &mut VecDeque<oneshot::Sender<()>>) -> bool {
    let mut given = 0;
    while given < AT_A_TIME {
        let Some(next) = waiting.pop_front() else {
            break;
        };
        // A connection that ended meanwhile takes none.
        given += usize::from(next.send(()).is_ok());
    }
    waiting.is_empty()
}

/// Empties the queue when the task that gives turns ends, with its runtime too.
struct Emptied;

impl Drop for Emptied {
    fn drop(&mut self) {
        WAITING.with_borrow_mut(VecDeque::clear);
    }
}

thread_local! {
    /// Connections of this worker that wait for their turn.
    static WAITING: RefCell<VecDeque<oneshot::Sender<()>>> = const { RefCell::new(VecDeque::new()) };
}

/// Bytes that a connection reads before it queues, and with each turn.
const AT_ONCE: usize = 64 << 10;

/// Turns between two looks at the sockets.
const AT_A_TIME: usize = 2;

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::future::poll_fn;
    use std::rc::Rc;

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::UnixStream;
    use tokio::task::LocalSet;

    use super::*;

    #[tokio::test]
    async fn a_socket_waits_for_few_turns_of_others() {
        let turns = Rc::new(Cell::new(0_usize));
        let tasks = LocalSet::new();
        for _ in 0..64 {
            tasks.spawn_local(send_without_pause(Rc::clone(&turns)));
        }
        tasks
            .run_until(async {
                let (mut ours, mut theirs) = UnixStream::pair().unwrap();
                for _ in 0..100 {
                    theirs.write_all(b"?").await.unwrap();
                    let before = turns.get();
                    ours.read_u8().await.unwrap();
                    let between = turns.get() - before;
                    assert!(between <= 64, "{between} turns came first");
                    yield_now().await;
                }
            })
            .await;
        assert!(turns.get() > 100, "{}", turns.get());
    }

    #[tokio::test]
    async fn turns_go_round() {
        let counts: Vec<_> = (0..5).map(|_| Rc::new(Cell::new(0_usize))).collect();
        let tasks = LocalSet::new();
        for count in &counts {
            tasks.spawn_local(send_without_pause(Rc::clone(count)));
        }
        let enough = poll_fn(|cx| {
            cx.waker().wake_by_ref();
            match counts[0].get() {
                0..100 => Poll::Pending,
                _ => Poll::Ready(()),
            }
        });
        tasks.run_until(enough).await;
        for count in &counts {
            assert!((98..=102).contains(&count.get()), "{counts:?}");
        }
    }

    #[tokio::test]
    async fn who_finds_its_socket_empty_never_queues() {
        let mut bulk = Bulk::default();
        for _ in 0..100 {
            bulk.note(AT_ONCE - 1);
            poll_fn(|cx| {
                assert!(bulk.poll_turn(cx).is_ready());
                Poll::Ready(())
            })
            .await;
            bulk.pause();
        }
    }

    /// Counts the turns of a connection that is never empty.
    async fn send_without_pause(turns: Rc<Cell<usize>>) {
        let mut bulk = Bulk::default();
        loop {
            poll_fn(|cx| bulk.poll_turn(cx)).await;
            turns.set(turns.get() + 1);
            bulk.note(AT_ONCE);
        }
    }
}
