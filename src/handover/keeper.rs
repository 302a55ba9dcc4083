//! Keeps the pid of the first process, once that has handed over and has no connections
//! left: whoever started the service follows it.

use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};

use rustix::process::{Pid, WaitOptions, set_child_subreaper, wait};
use rustix::stdio::{dup2_stdin, stdin};
use tokio::runtime::Builder;

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
    let newest = runtime.block_on(pass_on(link, newest))?;
    Ok(status_of(newest))
}

async fn pass_on(link: OwnedFd, mut newest: u32) -> Result<u32> {
    let mut signals = Signals::install()?;
    process::release_signals();
    let link = Channel::new(Link::of(link))?;
    link.tell(&Message::Idle).await;
    loop {
        tokio::select! {
            (signal, _) = signals.next() => link.tell(&Message::Signal { signal }).await,
            received = link.receive() => match received {
                Ok(Some(received)) => {
                    if let Message::Newest { pid } = received.message {
                        newest = pid;
                    }
                }
                _ => return Ok(newest),
            }
        }
    }
}

/// Waits until all children have ended. Returns the exit status of the newest process, as
/// a shell gives it.
fn status_of(newest: u32) -> u8 {
    let newest = i32::try_from(newest).ok().and_then(Pid::from_raw);
    let mut found = UNKNOWN;
    loop {
        match wait(WaitOptions::empty()) {
            Ok(Some((pid, status))) if Some(pid) == newest => {
                let signal = status.terminating_signal().map(|signal| 128 + signal);
                let code = status.exit_status().or(signal);
                found = code
                    .and_then(|code| u8::try_from(code).ok())
                    .unwrap_or(UNKNOWN);
            }
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(_) => return found,
        }
    }
}

/// Exit status if that of the newest process is not known.
const UNKNOWN: u8 = 1;
