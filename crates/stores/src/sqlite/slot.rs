//! Connections to the file, each for one thread at a time.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

use super::Options;
use super::file::StoreFile;
use super::read::StoreConnection;
use sekisho_certs::store::{Result, StoreError};

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
    role: Role,
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
            if self.file.same_file()? != connection.generation() {
                let path = self.file.path.display();
                return Err(StoreError::Unavailable(
                    format!("{path} was just replaced").into(),
                ));
            }
            Ok(done)
        })
    }

    pub(super) fn with<T>(
        &self,
        work: impl FnOnce(&mut StoreConnection) -> Result<T>,
    ) -> Result<T> {
        let mut open = self.lock();
        let connection = match &mut *open {
            Some(connection) => connection,
            empty => empty.insert(self.file.opened(self.role)?),
        };
        work(connection)
    }

    pub(super) fn is_writer(&self) -> bool {
        self.role == Role::Writer
    }

    /// Tells whether no connection is open; false while a thread uses it.
    pub(super) fn is_empty(&self) -> bool {
        match self.connection.try_lock() {
            Ok(connection) => connection.is_none(),
            Err(TryLockError::Poisoned(_)) => self.lock().is_none(),
            Err(TryLockError::WouldBlock) => false,
        }
    }

    /// Runs `work` without waiting: none if another thread is at it, or if the
    /// connection is not open.
    pub(super) fn try_with<T>(&self, work: impl FnOnce(&mut StoreConnection) -> T) -> Option<T> {
        let mut open = self.connection.try_lock().ok()?;
        open.as_mut().map(work)
    }

    /// Closes the connection in which a call panicked: it may stand in the
    /// middle of a transaction.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<StoreConnection>> {
        self.connection
            .lock()
            .unwrap_or_else(|poisoned| self.emptied(poisoned))
    }

    /// Locks as [`Slot::lock`]; none if a call keeps the connection until `deadline`.
    pub(super) fn lock_until(
        &self,
        deadline: Instant,
    ) -> Option<MutexGuard<'_, Option<StoreConnection>>> {
        loop {
            match self.connection.try_lock() {
                Ok(connection) => return Some(connection),
                Err(TryLockError::Poisoned(poisoned)) => return Some(self.emptied(poisoned)),
                Err(TryLockError::WouldBlock) if Instant::now() >= deadline => return None,
                Err(TryLockError::WouldBlock) => std::thread::sleep(LOCK_PAUSE),
            }
        }
    }

    fn emptied<'a>(
        &self,
        poisoned: PoisonError<MutexGuard<'a, Option<StoreConnection>>>,
    ) -> MutexGuard<'a, Option<StoreConnection>> {
        self.connection.clear_poison();
        let mut connection = poisoned.into_inner();
        *connection = None;
        connection
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
