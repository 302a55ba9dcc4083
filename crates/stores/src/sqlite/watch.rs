//! Noticing what other connections and other processes did.
//!
//! The kernel tells when the store's files are written. A commit is written first, then
//! synced, and visible only after that: SQLite shows it through mapped memory, of which no
//! event tells. For a while after an event the watch therefore looks every 25 ms.
//!
//! A look (a poll of the store) compares the file and SQLite's `data_version` with those
//! of the last look. The watch is quiet when no event came for [`SETTLING`].

use std::io;
use std::os::fd::AsFd as _;
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
    pub(super) changed: watch::Sender<()>,
    _stop: UnixStream,
}

impl Watch {
    pub(super) fn start(file: Arc<StoreFile>, inline: Arc<InlineReaders>) -> io::Result<Self> {
        let events = FileEvents::of(&file.path);
        if let Err(error) = &events {
            let path = file.path.display();
            tracing::warn!(
                %error,
                "inotify can't watch {path}: this process looks for changes every 25 ms, also when idle"
            );
        }
        Self::start_with(file, inline, events.ok(), SLOW_INTERVAL)
    }

    /// Starts a watch that `events` wake. It looks at least every `slow`, and every
    /// [`POLL_INTERVAL`] without events.
    pub(super) fn start_with(
        file: Arc<StoreFile>,
        inline: Arc<InlineReaders>,
        events: Option<FileEvents>,
        slow: Duration,
    ) -> io::Result<Self> {
        let (stop, stopped) = UnixStream::pair()?;
        let watcher = Watcher::new(file, inline, events, slow);
        let changed = watcher.changed.clone();
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
        // The sender lives as long as the store that was asked.
        async move { _ = changes.changed().await }
    }
}

/// State of the watching thread.
struct Watcher {
    file: Arc<StoreFile>,
    slot: Arc<Slot>,
    inline: Arc<InlineReaders>,
    changed: watch::Sender<()>,
    /// Events of the store's files; without them, each pause is short.
    events: Option<FileEvents>,
    slow: Duration,
    seen: Option<i64>,
    looked: Instant,
    /// End of the time in which a commit that an event told of may become visible.
    busy_until: Instant,
    /// An event came since a change was found last.
    announced: bool,
}

impl Watcher {
    fn new(
        file: Arc<StoreFile>,
        inline: Arc<InlineReaders>,
        events: Option<FileEvents>,
        slow: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            slot: file.slot(None, Role::Reader),
            file,
            inline,
            changed: watch::Sender::new(()),
            events,
            slow,
            seen: None,
            looked: now,
            busy_until: now,
            announced: false,
        }
    }

    fn run(mut self, stopped: &UnixStream) {
        self.inline.open();
        // The first look waits too: starting up must not. Events wait for the next look
        // as well: another process may write without pause.
        while wait(stopped, None, POLL_INTERVAL) == Woken::Due {
            if self.is_quiet() && wait(stopped, self.events.as_ref(), self.slow) == Woken::Stopped {
                return;
            }
            self.read_events();
            if !self.is_quiet() || self.looked.elapsed() >= self.slow {
                self.look();
            }
        }
    }

    /// Tells whether no event came for so long that no commit is under way.
    fn is_quiet(&self) -> bool {
        self.events.is_some() && Instant::now() >= self.busy_until
    }

    /// Ends the quiet if the store's files were written since the last call.
    fn read_events(&mut self) {
        match self.events.as_ref().map(FileEvents::read) {
            None | Some(Happened::Nothing) => {}
            Some(Happened::Event) => self.expect_changes(),
            Some(Happened::Lost) => self.renew_events(),
        }
    }

    fn expect_changes(&mut self) {
        self.announced = true;
        self.busy_until = Instant::now() + SETTLING;
    }

    /// Watches the folders in which the store lies now. Events that nobody read are
    /// dropped: looks find what they told of.
    fn renew_events(&mut self) {
        match FileEvents::of(&self.file.path) {
            Ok(events) => self.events = Some(events),
            Err(error) => self.give_up_events(&error.to_string()),
        }
        self.expect_changes();
    }

    fn give_up_events(&mut self, why: &str) {
        self.events = None;
        let path = self.file.path.display();
        tracing::warn!(
            "inotify no longer watches {path} ({why}): this process looks for changes every 25 ms until it is restarted"
        );
    }

    /// Announces a commit or another file if one came since the last look.
    fn look(&mut self) {
        self.looked = Instant::now();
        let (is_first, was_quiet) = (self.seen.is_none(), self.is_quiet());
        let replaced = self.file.follow();
        if replaced && self.events.is_some() {
            // A link may point to another folder now, or the folder may be another one.
            // Before the version is read: no commit falls between the two.
            self.renew_events();
        }
        // Opens connections that failed before, or were closed with their file.
        self.inline.open();
        // A file that can't be read is reported to those who read it.
        let version = self.slot.with(StoreConnection::data_version).ok();
        if !replaced && (version.is_none() || version == self.seen) {
            return;
        }
        self.seen = version;
        self.changed.send_replace(());
        if was_quiet && !is_first {
            // The event may have come after the events were read.
            self.read_events();
            if !self.announced {
                self.give_up_events("a change came without an event");
            }
        }
        self.announced = false;
    }
}

/// Reason for the end of a pause.
#[derive(Debug, PartialEq, Eq)]
enum Woken {
    /// The watch was dropped.
    Stopped,
    /// There are events, or the pause is over.
    Due,
}

/// Waits for `pause`, or until there are events or the watch is dropped.
fn wait(stopped: &UnixStream, events: Option<&FileEvents>, pause: Duration) -> Woken {
    // Without events, the first descriptor stands for them too.
    let events = events.map_or(stopped.as_fd(), |events| events.fd.as_fd());
    let mut waited =
        [stopped.as_fd(), events].map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN));
    // A pause that is too long for a `Timespec` has no end.
    let pause = Timespec::try_from(pause).ok();
    // A signal ends the pause early.
    let _ = poll(&mut waited, pause.as_ref());
    match waited[0].revents().is_empty() {
        true => Woken::Due,
        false => Woken::Stopped,
    }
}

/// Share of the 100 ms that [`CACHE_TIMEOUT`](sekisho_certs::feed::CACHE_TIMEOUT)
/// adds up.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Time that a commit may take from its last write until it is visible: a sync of the
/// disk. A slower one is seen within [`SLOW_INTERVAL`].
const SETTLING: Duration = Duration::from_secs(10);
/// Longest pause between two looks while nothing happens.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
