//! The old process's side of a hand-over.

use std::future::Future;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::pin::Pin;
use std::process::Child;
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use anyhow::{Context, bail};
use sekisho_certs::Secret;
use sekisho_stores::disk_cache::DiskCache;
use tokio::time::timeout;

use super::channel::{Channel, Link, MAX_DESCRIPTORS, MAX_TAIL};
use super::elders::Elders;
use super::launch::{Launcher, Program};
use super::message::{Kind, Message, Older};
use crate::terminal::failure::Result;

/// What a new process gets.
pub(crate) struct Estate {
    /// Listening sockets of all workers, with their addresses as configured.
    pub(crate) listeners: Vec<(SocketAddr, OwnedFd)>,
    /// Socket of the admin listener, with its address as configured.
    pub(crate) admin: Option<(String, OwnedFd)>,
    /// The disk cache, whose file only one process may have.
    pub(crate) disk_cache: Option<Arc<DiskCache>>,
    /// Returns the ticket keys.
    pub(crate) ticket_keys: Box<dyn Fn() -> Secret + Send>,
    /// Returns names that clients ask for most.
    pub(crate) hot_names: Box<dyn Fn() -> Vec<String> + Send>,
    /// Values of the configuration, a line each, once they are known.
    pub(crate) settings: Arc<OnceLock<Vec<String>>>,
    /// Lets go of what only one process may have. Called when the new one serves.
    pub(crate) let_go: Option<LetGo>,
    /// Waits until who asked for a hand-over has the answer.
    pub(crate) answered: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
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

/// Function that lets go, told whether the new process takes the admin listener's socket.
pub(crate) type LetGo = Box<dyn FnOnce(bool) -> Pin<Box<dyn Future<Output = ()> + Send>> + Send>;

/// New process that serves.
pub(crate) struct Successor {
    pub(crate) link: Channel,
    pub(crate) pid: u32,
    /// It serves the admin listener's socket.
    pub(crate) takes_admin: bool,
}

/// Starts the program, gives it everything, and waits until it serves. Dropping the future
/// ends the new process.
///
/// # Errors
/// If the program can't be started, ends, says why it can't serve, or does not serve within
/// [`START`].
pub(crate) async fn give(
    (launcher, program): (&Launcher, &Program),
    estate: &Estate,
    elders: &Elders,
    begin: Message,
    kind: Kind,
) -> Result<Successor> {
    let (link, input) = Link::pair().context("no sockets for a new process")?;
    let started = launcher.launch(program, kind, input).await;
    let child =
        started.with_context(|| format!("{} can't be started", program.file(kind).display()))?;
    let child = Started(Some(child));
    let link = Channel::new(link)?;
    let begun = timeout(START, begun(&link, estate, elders, begin)).await;
    match begun {
        Ok(Ok(takes_admin)) => Ok(Successor {
            link,
            pid: child.keep(),
            takes_admin,
        }),
        Ok(Err(error)) => Err(error),
        Err(_) => bail!("the new process did not serve within {START:?}, and was ended"),
    }
}

/// Gives everything, and waits for the answer. Returns whether the new process serves the
/// admin listener's socket.
async fn begun(link: &Channel, estate: &Estate, elders: &Elders, begin: Message) -> Result<bool> {
    let given = offer(link, estate, elders, begin).await;
    // A process that ends early has closed its end, and may have said why.
    match link.receive().await.context("the new process")? {
        Some(received) => match received.message {
            Message::Ready { takes_admin } => given.map(|()| takes_admin),
            Message::Failed { error } => bail!("{error}"),
            other => bail!("the new process speaks another language: {other:?}"),
        },
        None => bail!("the new process ended before it served; see its log lines"),
    }
}

async fn offer(link: &Channel, estate: &Estate, elders: &Elders, begin: Message) -> Result<()> {
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
    if let Some(disk) = &estate.disk_cache
        && let Ok(lock) = disk.lock_descriptor()
    {
        disk.suspend().await.context("the disk cache")?;
        carry(link, Message::DiskCache, lock.as_fd()).await?;
    }
    for (state, elder) in elders.links() {
        carry(link, Message::Older(state.clone()), elder.as_fd()).await?;
    }
    let keys = (estate.ticket_keys)();
    link.send(&Message::TicketKeys, keys.expose(), &[]).await?;
    send_lines(link, &Message::HotNames, (estate.hot_names)().iter()).await?;
    send_lines(
        link,
        &Message::Settings,
        estate.settings.get().into_iter().flatten(),
    )
    .await?;
    Ok(link.send(&begin, &[], &[]).await?)
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
    /// Lets the process live. A thread takes its exit status, or it would stay as a zombie.
    fn keep(mut self) -> u32 {
        let child = self.0.take().expect("kept once");
        let pid = child.id();
        reap(child);
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

/// Returns the state of this process as its successors know it.
pub(crate) fn this(keeper: bool, connections: u64, since: i64) -> Older {
    Older {
        pid: std::process::id(),
        keeper,
        idle: false,
        ending: false,
        connections,
        since,
    }
}

/// From the start of a new process until it serves: a store out of reach included.
const START: Duration = Duration::from_secs(30);
