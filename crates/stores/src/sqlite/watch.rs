//! Noticing what other connections and other processes did.
//!
//! The kernel tells when the store's files are written. A commit is written first, then
//! synced, and visible only after that: SQLite shows it through mapped memory, of which no
//! event tells. For a while after an event the watch therefore looks every 25 ms.

use std::io;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tokio::sync::watch;

use super::events::{FileEvents, Happened};
use super::file::StoreFile;
use super::inline::InlineReaders;
use super::read::StoreConnection;
use super::slot::{Role, Slot};

/// A thread that notices whether a commit or another file came; it ends when this is
/// dropped.
#[derive(Debug)]
pub(super) struct Watch {
    changed: Arc<watch::Sender<()>>,
    _stop: UnixStream,
}

impl Watch {
    pub(super) fn start(file: Arc<StoreFile>, inline: Arc<InlineReaders>) -> io::Result<Self> {
        let events = FileEvents::of(&file.path);
        if let Err(error) = &events {
            let path = file.path.display();
            tracing::warn!(
                %error,
                "inotify can't watch {path}: the server looks for changes every 25 ms, also when idle"
            );
        }
        Self::start_with(file, inline, events.ok(), SLOW_INTERVAL)
    }

    /// Starts with these events. The watch looks at least every `slow`.
    pub(super) fn start_with(
        file: Arc<StoreFile>,
        inline: Arc<InlineReaders>,
        events: Option<FileEvents>,
        slow: Duration,
    ) -> io::Result<Self> {
        let changed = Arc::new(watch::Sender::new(()));
        let (stop, stopped) = UnixStream::pair()?;
        let now = Instant::now();
        let watcher = Watcher {
            slot: file.slot(None, Role::Reader),
            file,
            inline,
            changed: Arc::clone(&changed),
            events,
            slow,
            seen: None,
            looked: now,
            busy_until: now,
        };
        thread::Builder::new()
            .name("sqlite-watch".to_owned())
            .spawn(move || watcher.run(&stopped))?;
        Ok(Self {
            changed,
            _stop: stop,
        })
    }

    /// Resolves at the next change from now on.
    pub(super) fn changed(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut changes = self.changed.subscribe();
        async move {
            // The sender lives as long as the store that was asked.
            let _ = changes.changed().await;
        }
    }

    /// Spares the store's own writes the wait for the next look.
    pub(super) fn notify(&self) -> Arc<watch::Sender<()>> {
        Arc::clone(&self.changed)
    }
}

/// What the thread knows.
struct Watcher {
    file: Arc<StoreFile>,
    slot: Arc<Slot>,
    inline: Arc<InlineReaders>,
    changed: Arc<watch::Sender<()>>,
    /// None where no events can be had: each pause is then short.
    events: Option<FileEvents>,
    slow: Duration,
    seen: Option<i64>,
    looked: Instant,
    /// Until then what an event announced may become visible.
    busy_until: Instant,
}

impl Watcher {
    fn run(mut self, stopped: &UnixStream) {
        self.inline.open();
        // The first look waits too: starting up must not. Events wait for the next look
        // as well: another process may write without pause.
        while !is_stopped(stopped, None, POLL_INTERVAL) {
            if self.is_quiet() && is_stopped(stopped, self.events.as_ref(), self.slow) {
                return;
            }
            let was_quiet = self.is_quiet();
            let happened = self.read_events();
            if happened || !was_quiet || self.looked.elapsed() >= self.slow {
                let is_first = self.seen.is_none();
                let changed = self.look();
                if changed && was_quiet && !happened && !is_first {
                    self.give_up_events("a change came without an event");
                }
            }
        }
    }

    /// Tells whether nothing was announced for so long that no commit is under way.
    fn is_quiet(&self) -> bool {
        self.events.is_some() && Instant::now() >= self.busy_until
    }

    /// Tells whether the store's files were written since the last call.
    fn read_events(&mut self) -> bool {
        match self.events.as_ref().map(FileEvents::read) {
            None | Some(Happened::Nothing) => return false,
            Some(Happened::Event) => self.busy_until = Instant::now() + SETTLING,
            Some(Happened::Lost) => self.give_up_events("its folder was moved or removed"),
        }
        true
    }

    fn give_up_events(&mut self, why: &str) {
        self.events = None;
        let path = self.file.path.display();
        tracing::warn!(
            "inotify no longer watches {path} ({why}): the server looks for changes every 25 ms until it is restarted"
        );
    }

    /// Tells, and announces, whether a commit or another file came.
    fn look(&mut self) -> bool {
        self.looked = Instant::now();
        let replaced = self.file.follow();
        // Opens connections that failed before, or were closed with their file.
        self.inline.open();
        // A file that can't be read is reported to those who read it.
        let version = self.slot.with(StoreConnection::data_version).ok();
        let changed = replaced || (version.is_some() && version != self.seen);
        if changed {
            self.seen = version;
            self.changed.send_replace(());
        }
        changed
    }
}

/// Waits for so long, or until there are events. Tells whether the watch was dropped.
fn is_stopped(stopped: &UnixStream, events: Option<&FileEvents>, pause: Duration) -> bool {
    let mut waited = vec![PollFd::new(stopped, PollFlags::IN)];
    waited.extend(events.map(|events| PollFd::from_borrowed_fd(events.as_fd(), PollFlags::IN)));
    // A pause that is too long for a `Timespec` has no end.
    let pause = Timespec::try_from(pause).ok();
    // A signal ends the pause early.
    let _ = poll(&mut waited, pause.as_ref());
    !waited[0].revents().is_empty()
}

/// Share of the 100 ms that [`CACHE_TIMEOUT`](sekisho_certs::feed::CACHE_TIMEOUT)
/// adds up.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// How long a commit may take from its last write until it is visible: a sync of the
/// disk. One that takes longer is seen within [`SLOW_INTERVAL`].
const SETTLING: Duration = Duration::from_secs(10);
/// Between two looks while nothing happens.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
