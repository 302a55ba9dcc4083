//! Noticing what other connections and other processes did.
//!
//! Every 25 ms the watch compares the store's file and its write-ahead log, by their
//! metadata, with those of the last time. A commit is written first, then synced, and
//! visible only after that: for a while after a difference the watch therefore looks each
//! time, and it looks once a second in any case.
//!
//! A look (a poll of the store) compares the file and SQLite's `data_version` with those
//! of the last look.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::watch;

use super::file::StoreFile;
use super::inline::InlineReaders;
use super::read::StoreConnection;
use super::slot::{Role, Slot};

/// A thread that notices whether a commit or another file came; it ends when this is
/// dropped.
#[derive(Debug)]
pub(super) struct Watch {
    changed: Arc<watch::Sender<()>>,
    _stop: mpsc::SyncSender<()>,
}

impl Watch {
    pub(super) fn start(file: Arc<StoreFile>, inline: Arc<InlineReaders>) -> io::Result<Self> {
        Self::start_with(file, inline, SLOW_INTERVAL)
    }

    /// Starts a watch that looks at least every `slow`.
    pub(super) fn start_with(
        file: Arc<StoreFile>,
        inline: Arc<InlineReaders>,
        slow: Duration,
    ) -> io::Result<Self> {
        let changed = Arc::new(watch::Sender::new(()));
        let (stop, stopped) = mpsc::sync_channel(0);
        let watcher = Watcher::new(file, inline, Arc::clone(&changed), slow);
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

/// State of the watching thread.
struct Watcher {
    file: Arc<StoreFile>,
    slot: Arc<Slot>,
    inline: Arc<InlineReaders>,
    changed: Arc<watch::Sender<()>>,
    slow: Duration,
    /// The write-ahead log, which lies beside the file that a link leads to.
    log: PathBuf,
    written: Written,
    seen: Option<i64>,
    looked: Instant,
    /// End of the time in which a commit that was written may become visible.
    busy_until: Instant,
}

impl Watcher {
    fn new(
        file: Arc<StoreFile>,
        inline: Arc<InlineReaders>,
        changed: Arc<watch::Sender<()>>,
        slow: Duration,
    ) -> Self {
        let now = Instant::now();
        Self {
            slot: file.slot(None, Role::Reader),
            log: log_of(&file.path),
            file,
            inline,
            changed,
            slow,
            written: Written::default(),
            seen: None,
            looked: now,
            busy_until: now,
        }
    }

    fn run(mut self, stopped: &mpsc::Receiver<()>) {
        self.inline.open();
        // The first look waits too: starting up must not.
        while stopped.recv_timeout(POLL_INTERVAL) == Err(mpsc::RecvTimeoutError::Timeout) {
            if self.is_due() {
                self.look();
            }
        }
    }

    /// Returns whether a commit or another file may have come since the last look.
    fn is_due(&mut self) -> bool {
        let now = Instant::now();
        let written = Written::of(&self.file.path, &self.log);
        if written != self.written {
            self.written = written;
            self.busy_until = now + SETTLING;
        }
        now < self.busy_until || now.duration_since(self.looked) >= self.slow
    }

    /// Announces a commit or another file if one came since the last look.
    fn look(&mut self) {
        self.looked = Instant::now();
        let replaced = self.file.follow();
        if replaced {
            self.log = log_of(&self.file.path);
        }
        // Opens connections that failed before, or were closed with their file.
        self.inline.open();
        // A file that can't be read is reported to those who read it.
        let version = self.slot.with(StoreConnection::data_version).ok();
        if replaced || version.is_some() && version != self.seen {
            self.seen = version;
            self.changed.send_replace(());
        }
    }
}

/// Metadata of the store's file and of its write-ahead log, each none while it is missing.
#[derive(Debug, Default, PartialEq, Eq)]
struct Written([Option<Metadata>; 2]);

#[derive(Debug, PartialEq, Eq)]
struct Metadata {
    device: u64,
    inode: u64,
    bytes: u64,
    /// Time of the last write, in seconds and nanoseconds. Two writes may have one: for
    /// [`SETTLING`] after the first the watch looks anyway.
    written: (i64, i64),
}

impl Written {
    fn of(file: &Path, log: &Path) -> Self {
        let read = |path| {
            let found = fs::metadata(path).ok()?;
            Some(Metadata {
                device: found.dev(),
                inode: found.ino(),
                bytes: found.size(),
                written: (found.mtime(), found.mtime_nsec()),
            })
        };
        Self([read(file), read(log)])
    }
}

/// Returns where SQLite puts the write-ahead log of the file at `path`.
fn log_of(path: &Path) -> PathBuf {
    let file = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
    let mut log = OsString::from(file);
    log.push("-wal");
    log.into()
}

/// Share of the 100 ms that [`CACHE_TIMEOUT`](sekisho_certs::feed::CACHE_TIMEOUT)
/// adds up.
const POLL_INTERVAL: Duration = Duration::from_millis(25);
/// Time that a commit may take from its last write until it is visible: a sync of the
/// disk. A slower one is seen within [`SLOW_INTERVAL`].
const SETTLING: Duration = Duration::from_secs(10);
/// Longest pause between two looks while nothing is written.
const SLOW_INTERVAL: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests;
