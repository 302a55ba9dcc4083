//! The old process's side of a hand-over.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::process::Child;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use sekisho_certs::Secret;
use sekisho_stores::disk_cache::DiskCache;
use tokio::task::{JoinHandle, spawn_blocking};
use tokio::time::timeout;

use super::channel::{Channel, Link, MAX_DESCRIPTORS, MAX_TAIL};
use super::launch::{Launcher, Program};
use super::message::{Complete, Message, ProcessState};
use super::notify;
use super::take::ZoneSocket;
use crate::terminal::failure::Result;

/// What a new process gets.
pub(crate) struct Estate {
    /// Listening sockets of all workers, with their addresses as configured.
    pub(crate) listeners: Vec<(SocketAddr, OwnedFd)>,
    /// Socket of the admin listener, with its address as configured.
    pub(crate) admin: Option<(String, OwnedFd)>,
    /// Sockets of the name server.
    pub(crate) zones: Vec<ZoneSocket>,
    /// The disk cache, whose file only one process may have.
    pub(crate) disk_cache: Option<Arc<DiskCache>>,
    /// Returns the ticket keys.
    pub(crate) ticket_keys: Box<dyn Fn() -> Secret + Send>,
    /// Returns names that clients ask for most.
    pub(crate) hot_names: Arc<Lines>,
    /// Returns the values of the configuration, a line each.
    pub(crate) config_lines: Arc<Lines>,
    /// Lets go of what only one process may have. Called when the new one serves.
    pub(crate) let_go: Option<LetGo>,
    /// Waits until who asked for a hand-over has the answer, and orders have ended.
    pub(crate) finished: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
    /// Gives memory back that only new connections need.
    pub(crate) give_back: Option<Box<dyn FnOnce() + Send>>,
}

impl Estate {
    /// Takes back what a process got that has failed.
    pub(crate) async fn take_back(&self) {
        if let Some(disk) = &self.disk_cache
            && let Err(error) = disk.resume().await
        {
            tracing::warn!(%error, "the disk cache stays closed until the next hand-over");
        }
    }
}

/// Function that makes lines. It takes a while.
pub(crate) type Lines = dyn Fn() -> Vec<String> + Send + Sync;

/// Function that lets go, told whether the new process takes the admin listener's socket.
pub(crate) type LetGo = Box<dyn FnOnce(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// New process that serves.
pub(crate) struct Successor {
    pub(crate) link: Channel,
    pub(crate) pid: u32,
    /// It serves the admin listener's socket.
    pub(crate) takes_admin: bool,
}

/// Starts the program, gives it everything, and waits until it serves. `older` are links to
/// older processes. Dropping the future ends the new process.
///
/// # Errors
/// If the program can't be started, ends, says why it can't serve, or does not serve within
/// [`START`].
pub(crate) async fn give(
    (launcher, program): (&Launcher, &Program),
    estate: &Estate,
    older: Vec<(ProcessState, OwnedFd)>,
    complete: Complete,
) -> Result<Successor> {
    let kind = complete.kind;
    let given = timeout(START, async {
        let (link, input) = Link::pair().context("no sockets for a new process")?;
        let started = launcher.launch(program, kind, input).await;
        let child = started
            .with_context(|| format!("{} can't be started", program.file(kind).display()))?;
        let child = Started(Some(child));
        let link = Channel::new(link)?;
        // A manager must see the new process end. The keeper of the pid takes the exit status
        // of its children, and of those that lose their parent.
        let reaps = notify::has_manager();
        let takes_admin = give_and_wait(&link, estate, older, complete).await?;
        Ok(Successor {
            link,
            pid: child.keep(reaps),
            takes_admin,
        })
    });
    let late = || anyhow!("the new process did not serve within {START:?}, and was ended");
    given.await.unwrap_or_else(|_| Err(late()))
}

/// Gives everything, and waits for the answer. Returns whether the new process serves the
/// admin listener's socket.
async fn give_and_wait(
    link: &Channel,
    estate: &Estate,
    older: Vec<(ProcessState, OwnedFd)>,
    complete: Complete,
) -> Result<bool> {
    // Sockets that were sent to a program which hangs would outlive this process.
    let Message::Hello = hear(link).await? else {
        bail!("the new process does not begin with a greeting");
    };
    if let Err(error) = offer(link, estate, older, complete).await {
        // A process that ends early has closed its end, and may have said why.
        match timeout(LAST_WORD, hear(link)).await {
            Ok(Ok(Message::Failed { error })) => bail!("{error}"),
            _ => return Err(error),
        }
    }
    match hear(link).await? {
        Message::Ready { takes_admin } => Ok(takes_admin),
        Message::Failed { error } => bail!("{error}"),
        other => bail!("the new process speaks another language: {other:?}"),
    }
}

async fn hear(link: &Channel) -> Result<Message> {
    let received = link.receive().await.context("the new process")?;
    let received = received.context("the new process ended before it served; see its log lines")?;
    Ok(received.message)
}

async fn offer(
    link: &Channel,
    estate: &Estate,
    older: Vec<(ProcessState, OwnedFd)>,
    complete: Complete,
) -> Result<()> {
    let (hot_names, config_lines) = (
        beside(Arc::clone(&estate.hot_names)),
        beside(Arc::clone(&estate.config_lines)),
    );
    for sockets in estate.listeners.chunks(MAX_DESCRIPTORS) {
        let addresses = sockets.iter().map(|(address, _)| *address).collect();
        let descriptors: Vec<_> = sockets.iter().map(|(_, socket)| socket.as_fd()).collect();
        let message = Message::Listeners { addresses };
        link.send(&message, &[], &descriptors).await?;
    }
    if let Some((address, socket)) = &estate.admin {
        let address = address.clone();
        carry(link, Message::Admin { address }, socket.as_fd()).await?;
    }
    for (address, [udp, tcp]) in &estate.zones {
        let message = Message::Zone { address: *address };
        link.send(&message, &[], &[udp.as_fd(), tcp.as_fd()])
            .await?;
    }
    if let Some(disk) = &estate.disk_cache
        && let Ok(lock) = disk.lock_descriptor()
    {
        disk.suspend().await.context("the disk cache")?;
        carry(link, Message::DiskCache, lock.as_fd()).await?;
    }
    for (state, older) in older {
        carry(link, Message::Older(state), older.as_fd()).await?;
    }
    let keys = (estate.ticket_keys)();
    link.send(&Message::TicketKeys, keys.expose(), &[]).await?;
    send_lines(link, &Message::HotNames, hot_names.await?.iter()).await?;
    send_lines(link, &Message::ConfigLines, config_lines.await?.iter()).await?;
    Ok(link.send(&Message::Complete(complete), &[], &[]).await?)
}

/// Makes lines on a thread of its own.
fn beside(lines: Arc<Lines>) -> JoinHandle<Vec<String>> {
    spawn_blocking(move || lines())
}

async fn carry(link: &Channel, message: Message, descriptor: BorrowedFd<'_>) -> Result<()> {
    Ok(link.send(&message, &[], &[descriptor]).await?)
}

/// Sends lines, as many in a message as fit. A longer one is left out.
async fn send_lines(
    link: &Channel,
    message: &Message,
    lines: impl Iterator<Item = &String>,
) -> Result<()> {
    let mut tail = String::new();
    for line in lines.filter(|line| line.len() < MAX_TAIL) {
        if tail.len() + line.len() >= MAX_TAIL {
            link.send(message, tail.as_bytes(), &[]).await?;
            tail.clear();
        }
        tail.push_str(line);
        tail.push('\n');
    }
    Ok(link.send(message, tail.as_bytes(), &[]).await?)
}

/// New process. Dropping this ends it.
struct Started(Option<Child>);

impl Started {
    /// Lets the process live. A thread that reaps takes its exit status, or it would stay as
    /// a zombie.
    #[expect(
        clippy::zombie_processes,
        reason = "the keeper of the pid takes the exit status"
    )]
    fn keep(mut self, reaps: bool) -> u32 {
        let child = self.0.take().expect("kept once");
        let pid = child.id();
        if reaps {
            reap(child);
        }
        pid
    }
}

impl Drop for Started {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            // It may have ended by itself.
            let _ = child.kill();
            reap(child);
        }
    }
}

fn reap(mut child: Child) {
    let wait = move || drop(child.wait());
    // Without a thread the zombie stays until this process ends.
    let _ = thread::Builder::new().name("reaper".into()).spawn(wait);
}

/// From the start of a new process until it serves: a store out of reach included.
const START: Duration = Duration::from_secs(30);
/// Time in which a process that could not be given everything says why.
const LAST_WORD: Duration = Duration::from_secs(1);
