//! The file goes from a process to the one that takes over.
//!
//! One process has the file at any time; SQLite's own lock of it sees to that, too.
//!
//! 1. The old process gives a duplicate of its lock ([`DiskCache::lock_descriptor`]): both
//!    hold the lock then, and no third process gets it between them.
//! 2. It suspends: it writes what waits and closes the file. Lookups go on without copies.
//! 3. The new process opens the file with that lock ([`DiskCache::inherit`]), as after a
//!    restart: where the file stands in the log is read from the file.
//! 4. The old process retires for good. If the new one has failed and ended, it resumes
//!    instead. It trusts nothing that it remembers: it reads from the file how far the new
//!    process came, and reads the log from there.
//!
//! A process that is killed leaves the file as at any other time: the next one to open it,
//! or to resume, reads the write-ahead log.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::file::CacheFile;
use super::writer::Writer;
use super::{DiskCache, Options};
use crate::fault::{unavailable, within};
use sekisho_certs::Seen;
use sekisho_certs::store::Result;

impl DiskCache {
    /// Opens the file as [`Self::open`] does, with the lock that a process handed over. That
    /// process has suspended its cache; the file is waited for up to 5 s. A descriptor of
    /// another path's lock is closed, and the lock of this path taken.
    ///
    /// # Errors
    /// Those of [`Self::open`].
    pub fn inherit(
        options: &Options,
        lock: OwnedFd,
        seen: Arc<Seen>,
        runtime: &Handle,
    ) -> Result<Self> {
        let file = CacheFile::inherit(&options.path, options.size, lock);
        Self::start(file.map_err(unavailable)?, options, seen, runtime)
    }

    /// Duplicates the descriptor of the lock. The lock is held until all duplicates, those in
    /// other processes too, are closed.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] after [`Self::retire`]; the system's error if there is no
    /// descriptor left.
    pub fn lock_descriptor(&self) -> io::Result<OwnedFd> {
        match self.inner.lock.upgrade() {
            Some(lock) => Ok(lock.try_clone()?.into()),
            None => Err(io::ErrorKind::NotFound.into()),
        }
    }

    /// Writes what waits and closes the file, and keeps its lock. Until [`Self::resume`] no
    /// copy answers or is written. Absences of a plain store are noted meanwhile, so that
    /// their copies are dropped then.
    ///
    /// # Errors
    /// The disk took longer than 8 s. The file may be closed later; `resume` undoes that.
    pub async fn suspend(&self) -> Result<()> {
        self.hand_over(|writer| {
            writer.suspend();
            Ok(())
        })
        .await
    }

    /// Opens the file again after [`Self::suspend`]; the process that it was suspended for
    /// has ended. The log is read from where that process left the file.
    ///
    /// # Errors
    /// The file can't be opened, for example because that process still has it. The cache
    /// stays suspended, and this may be called again.
    pub async fn resume(&self) -> Result<()> {
        let resumed = self.hand_over(Writer::resume).await;
        // What was noted meanwhile.
        self.inner.shared.pending.filled.notify_one();
        resumed
    }

    /// Ends the cache: writes what waits unless it is suspended, and closes file and lock.
    /// No copy answers or is written from then on.
    ///
    /// # Errors
    /// The disk took longer than 8 s. The cache still ends as soon as the disk answers.
    pub async fn retire(&self) -> Result<()> {
        self.hand_over(|writer| {
            writer.retire();
            Ok(())
        })
        .await
    }

    /// Waits for the writer, without the check of [`Inner::ask`](super::Inner::ask).
    async fn hand_over(
        &self,
        work: impl FnOnce(&mut Writer) -> Result<()> + Send + 'static,
    ) -> Result<()> {
        // Not taken back when this future is dropped or late: a state between would stay.
        let writer = Arc::clone(&self.inner);
        let given = tokio::spawn(async move { writer.writer.run(work).await });
        let ended = |_| Err(unavailable("the runtime ended"));
        within(DISK_TIMEOUT, async { given.await.unwrap_or_else(ended) }).await
    }
}

/// Longer than the 5 s for which SQLite waits for the process that has the file.
const DISK_TIMEOUT: Duration = Duration::from_secs(8);
