//! Keeps the pid of the first process, once that has handed over and has no connections
//! left: whoever started the service follows it.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, WaitStatus, set_child_subreaper, wait};
use rustix::stdio::{dup2_stdin, stdin};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::timeout;

use super::channel::{Channel, Link};
use super::message::Message;
use super::signals::Signals;
use crate::process;
use crate::terminal::failure::Result;

/// Makes processes that lose their parent children of this one: it can then tell how the
/// newest has ended.
pub(crate) fn adopt() {
    if let Err(error) = set_child_subreaper(rustix::process::getpid().into()) {
        tracing::warn!(%error, "the exit status of later processes will be unknown");
    }
}

/// Executes this program as one that keeps the pid and nothing else: it needs less memory.
/// Signals are held back. Returns the exit status of the newest process if that fails.
pub(crate) fn become_keeper(link: Link, newest: u32) -> u8 {
    let link = OwnedFd::from(link);
    let error = match dup2_stdin(&link) {
        Ok(()) => process::execute_self(&["sekisho", "keep-pid", &newest.to_string()]),
        Err(error) => error.into(),
    };
    eprintln!("warning: the first process keeps its memory: {error}");
    keep_with(link, newest).unwrap_or(UNKNOWN)
}

/// Passes signals on to the newest process until it ends: the link is standard input.
/// Returns its exit status.
pub(crate) fn keep(newest: u32) -> Result<u8> {
    let link = stdin().as_fd().try_clone_to_owned()?;
    dup2_stdin(File::open("/dev/null")?)?;
    keep_with(link, newest)
}

fn keep_with(link: OwnedFd, newest: u32) -> Result<u8> {
    adopt();
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let mut children = Children {
        newest,
        ended: VecDeque::new(),
    };
    runtime.block_on(pass_on(link, &mut children))?;
    Ok(children.status().unwrap_or(UNKNOWN))
}

/// Child processes of the keeper of the pid.
struct Children {
    newest: u32,
    /// Children that have ended last, with their exit status as a shell gives it. The end of
    /// a process may be seen before the message that it is the newest.
    ended: VecDeque<(u32, u8)>,
}

async fn pass_on(link: OwnedFd, children: &mut Children) -> Result<()> {
    let mut signals = Signals::install()?;
    let mut ended = signal(SignalKind::child())?;
    process::release_signals();
    let link = Channel::new(Link::of(link))?;
    link.tell(&Message::Idle).await;
    // Those that ended before the handler was there.
    children.reap();
    process::give_up_code_of_the_start();
    loop {
        tokio::select! {
            (signal, _) = signals.next() => link.tell(&Message::Signal { signal }).await,
            _ = ended.recv() => drop(children.reap()),
            received = link.receive() => match received {
                Ok(Some(received)) => {
                    if let Message::Newest { pid } = received.message {
                        children.newest = pid;
                    }
                }
                _ => break,
            }
        }
    }
    // The newest process may end after its link, and becomes a child of this one only once
    // the older process that started it has ended. Other children are not waited for.
    let reaped = async {
        while children.reap() && children.status().is_none() {
            ended.recv().await;
        }
    };
    let _ = timeout(ENDS, reaped).await;
    Ok(())
}

impl Children {
    /// Takes the exit status of children that have ended. Returns whether any are left.
    fn reap(&mut self) -> bool {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => self.note(pid, status),
                Err(rustix::io::Errno::INTR) => {}
                Ok(None) => return true,
                Err(_) => return false,
            }
        }
    }

    fn note(&mut self, pid: Pid, status: WaitStatus) {
        let pid = pid.as_raw_nonzero().get().unsigned_abs();
        let signal = status.terminating_signal().map(|signal| 128 + signal);
        let code = status.exit_status().or(signal);
        let code = code.and_then(|code| u8::try_from(code).ok());
        if self.ended.len() == MOST_ENDED {
            self.ended.pop_front();
        }
        self.ended.push_back((pid, code.unwrap_or(UNKNOWN)));
    }

    /// Returns the exit status of the newest one, once it has ended.
    fn status(&self) -> Option<u8> {
        let mut ended = self.ended.iter().rev();
        ended
            .find(|(pid, _)| *pid == self.newest)
            .map(|(_, status)| *status)
    }
}

/// Children whose ends are remembered. Others than the newest are older processes, and, for
/// process 1, what lost its parent.
const MOST_ENDED: usize = 64;
/// Time in which the newest process ends behind its link.
const ENDS: Duration = Duration::from_secs(10);
/// Exit status if that of the newest process is not known.
const UNKNOWN: u8 = 1;
