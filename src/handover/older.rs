//! Older processes of this server: they serve the connections that they accepted.

use std::future::poll_fn;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::task::{Context, Poll};

use super::channel::{Channel, Link, Received};
use super::message::{Message, ProcessState, Signal};

/// Older processes, the oldest first, as the newest one knows them.
#[derive(Debug, Default)]
pub(crate) struct OlderProcesses {
    all: Vec<OlderProcess>,
    /// Connections that hand-overs have cut off.
    cut: u64,
}

#[derive(Debug)]
struct OlderProcess {
    link: Channel,
    state: ProcessState,
    /// It has said how many connections it cut off.
    has_counted: bool,
}

/// What an older process did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The keeper of the pid got a signal.
    Signal(Signal),
    /// The keeper of the pid was killed: whoever started the service saw it end.
    KeeperKilled,
    /// It said how it is, or has ended.
    Changed,
}

impl OlderProcesses {
    /// Adds processes that were told of by the one that handed over; they and `cut` come
    /// from there.
    pub(crate) fn of(all: Vec<(ProcessState, Link)>, cut: u64) -> io::Result<Self> {
        let mut older = Self {
            all: Vec::new(),
            cut,
        };
        for (state, link) in all {
            older.add(state, Channel::new(link)?);
        }
        Ok(older)
    }

    /// Adds the youngest of them.
    pub(crate) fn add(&mut self, state: ProcessState, link: Channel) {
        self.all.push(OlderProcess {
            link,
            state,
            has_counted: false,
        });
    }

    /// Returns their states, the oldest first.
    pub(crate) fn states(&self) -> Vec<ProcessState> {
        self.all
            .iter()
            .map(|process| process.state.clone())
            .collect()
    }

    /// Duplicates the links, with the states.
    ///
    /// # Errors
    /// If the process has no descriptors left.
    pub(crate) fn links(&self) -> io::Result<Vec<(ProcessState, OwnedFd)>> {
        let duplicate = |process: &OlderProcess| {
            let link = process.link.as_fd().try_clone_to_owned()?;
            Ok((process.state.clone(), link))
        };
        self.all.iter().map(duplicate).collect()
    }

    /// Returns how many connections hand-overs have cut off.
    pub(crate) fn cut(&self) -> u64 {
        self.cut
    }

    /// Tells the oldest to end where more than [`MOST`] live: a hand-over is never
    /// refused.
    pub(crate) async fn keep_few(&mut self) {
        let lives = |process: &&mut OlderProcess| !process.state.idle && !process.state.ending;
        let living = self.all.iter_mut().filter(lives).count();
        let surplus = living.saturating_sub(MOST);
        for process in self.all.iter_mut().filter(lives).take(surplus) {
            let ProcessState {
                pid, connections, ..
            } = process.state;
            tracing::warn!(
                pid,
                connections,
                "the oldest process ends as at SIGTERM: {MOST} others still have connections"
            );
            process.drain().await;
        }
    }

    /// Tells all of them to end as at SIGTERM.
    pub(crate) async fn drain(&mut self) {
        for process in &mut self.all {
            process.drain().await;
        }
    }

    /// Tells all of them the same.
    pub(crate) async fn tell(&self, message: &Message) {
        for process in &self.all {
            process.link.tell(message).await;
        }
    }

    /// Tells the keeper of the pid which process serves now.
    pub(crate) async fn tell_keeper(&self, pid: u32) {
        for process in self.all.iter().filter(|process| process.state.keeper) {
            process.link.tell(&Message::Newest { pid }).await;
        }
    }

    /// Returns whether some are left beside the keeper of the pid, which waits for this
    /// process.
    pub(crate) fn are_left(&self) -> bool {
        self.all.iter().any(|process| !process.state.keeper)
    }

    /// Waits for the next thing that one of them does. Cancel-safe.
    pub(crate) async fn event(&mut self) -> Event {
        poll_fn(|cx| self.poll_event(cx)).await
    }

    fn poll_event(&mut self, cx: &mut Context<'_>) -> Poll<Event> {
        for index in 0..self.all.len() {
            if let Poll::Ready(received) = self.all[index].link.poll_receive(cx) {
                return Poll::Ready(self.received(index, received));
            }
        }
        Poll::Pending
    }

    fn received(&mut self, index: usize, received: io::Result<Option<Received>>) -> Event {
        let process = &mut self.all[index];
        let pid = process.state.pid;
        match received {
            Ok(Some(received)) => match received.message {
                Message::Open { connections } => process.state.connections = connections,
                Message::Cut { connections } => {
                    process.has_counted = true;
                    process.state.connections = 0;
                    self.count_cut(pid, connections);
                }
                Message::Idle => process.state.idle = true,
                Message::Signal { signal } => return Event::Signal(signal),
                // A later version may say more.
                _ => {}
            },
            ended => {
                if let Err(error) = ended {
                    tracing::warn!(%error, pid, "link to an older process failed");
                }
                let process = self.all.remove(index);
                if !process.has_counted {
                    // It was killed.
                    self.count_cut(pid, process.state.connections);
                }
                if process.state.keeper {
                    return Event::KeeperKilled;
                }
                tracing::info!(pid, "older process ended");
            }
        }
        Event::Changed
    }

    fn count_cut(&mut self, pid: u32, connections: u64) {
        self.cut += connections;
        if connections > 0 {
            tracing::warn!(
                pid,
                connections,
                "connections of an older process were cut off"
            );
        }
    }
}

impl OlderProcess {
    async fn drain(&mut self) {
        self.state.ending = true;
        self.link.tell(&Message::Drain).await;
    }
}

/// Older processes that may live on with their connections.
const MOST: usize = 2;
