//! Connections to the file, each for one thread at a time.

use std::sync::{Arc, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use super::Options;
use super::file::StoreFile;
use super::read::StoreConnection;
use crate::fault::unavailable;
use sekisho_certs::lock;
use sekisho_certs::store::Result;

/// Purpose of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Reads on a thread that may wait.
    Reader,
    /// Reads on a thread that must not.
    Inline,
    /// Writes.
    Writer,
}

impl Role {
    pub(super) fn cache_kib(self) -> i32 {
        match self {
            Self::Reader => READER_CACHE_KIB,
            Self::Inline => INLINE_CACHE_KIB,
            Self::Writer => WRITER_CACHE_KIB,
        }
    }

    pub(super) fn busy_timeout(self, options: &Options) -> Duration {
        match self {
            Self::Reader | Self::Writer => options.busy,
            Self::Inline => Duration::ZERO,
        }
    }
}

/// A connection, opened at its first use, and again after the file was replaced.
#[derive(Debug)]
pub(crate) struct Slot {
    file: Arc<StoreFile>,
    pub(super) role: Role,
    connection: Mutex<Option<StoreConnection>>,
}

impl Slot {
    pub(super) fn new(
        file: Arc<StoreFile>,
        role: Role,
        connection: Option<StoreConnection>,
    ) -> Self {
        Self {
            file,
            role,
            connection: Mutex::new(connection),
        }
    }

    /// Writes, and makes sure that it was into the file at the path: a commit
    /// into one that was just replaced is gone with it.
    pub(super) fn with_durably<T>(
        &self,
        work: impl FnOnce(&mut StoreConnection) -> Result<T>,
    ) -> Result<T> {
        self.with(|connection| {
            let done = work(connection)?;
            if self.file.same_file()? != connection.generation {
                let path = self.file.path.display();
                return Err(unavailable(format!("{path} was just replaced")));
            }
            Ok(done)
        })
    }

    /// Runs `work`, which may open the connection first. A call that panics takes its
    /// connection with it, which may stand in the middle of a transaction.
    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut StoreConnection) -> Result<T>,
    ) -> Result<T> {
        let mut open = lock(&self.connection);
        let mut connection = match open.take() {
            Some(connection) => connection,
            None => self.file.opened(self.role)?,
        };
        let done = work(&mut connection);
        *open = Some(connection);
        done
    }

    /// Tells whether no connection is open; false while a thread uses it.
    pub(super) fn is_empty(&self) -> bool {
        self.try_lock()
            .is_some_and(|connection| connection.is_none())
    }

    /// Runs `work` like [`Slot::with`], but without waiting: none if another thread is at
    /// it, or if the connection is not open.
    pub(super) fn try_with<T>(&self, work: impl FnOnce(&mut StoreConnection) -> T) -> Option<T> {
        let mut open = self.try_lock()?;
        let mut connection = open.take()?;
        let done = work(&mut connection);
        *open = Some(connection);
        Some(done)
    }

    /// Locks the connection; none if a call keeps it until `deadline`.
    pub(super) fn lock_until(
        &self,
        deadline: Instant,
    ) -> Option<MutexGuard<'_, Option<StoreConnection>>> {
        loop {
            let locked = self.try_lock();
            if locked.is_some() || Instant::now() >= deadline {
                return locked;
            }
            std::thread::sleep(LOCK_PAUSE);
        }
    }

    fn try_lock(&self) -> Option<MutexGuard<'_, Option<StoreConnection>>> {
        match self.connection.try_lock() {
            Ok(connection) => Some(connection),
            Err(TryLockError::Poisoned(emptied)) => Some(emptied.into_inner()),
            Err(TryLockError::WouldBlock) => None,
        }
    }
}

/// Between two tries to lock a connection.
const LOCK_PAUSE: Duration = Duration::from_millis(1);
/// A reader's pages: the upper levels of the tables of a million hosts.
const READER_CACHE_KIB: i32 = 2048;
/// An inline reader's pages, of which there is one per core.
const INLINE_CACHE_KIB: i32 = 1024;
/// Only used while writing: what a batch of an import touches.
const WRITER_CACHE_KIB: i32 = 8192;
