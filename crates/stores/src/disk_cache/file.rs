//! The file of the disk cache: its lock, opening it, making it anew.

use std::fmt;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::tables::{self, APPLICATION_ID, Meta};
use crate::own_file::{beside, create, of_database, remove};
use crate::sqlite::nowait;

/// A path that this process alone uses for copies, until it hands it over.
#[derive(Debug)]
pub(super) struct CacheFile {
    pub(super) path: PathBuf,
    size: u64,
    /// The system frees it with the last process that has this open file, however that ends.
    /// None once the path was given up.
    lock: Option<Arc<File>>,
}

/// Result whose error is text for the operator.
pub(super) type Result<T> = std::result::Result<T, String>;

impl CacheFile {
    /// Takes the lock.
    pub(super) fn lock(path: &Path, size: u64) -> Result<Self> {
        Self::with_lock(path, size, locked)
    }

    /// Takes over the lock of another process, if it is that of this path. Its open file is
    /// the other's: to lock it again succeeds.
    pub(super) fn inherit(path: &Path, size: u64, handed: OwnedFd) -> Result<Self> {
        let handed = File::from(handed);
        Self::with_lock(path, size, |lock| match is_file_at(&handed, lock) {
            true => handed.try_lock().map(|()| handed),
            false => locked(lock),
        })
    }

    fn with_lock(
        path: &Path,
        size: u64,
        take: impl FnOnce(&Path) -> std::result::Result<File, TryLockError>,
    ) -> Result<Self> {
        nowait::prepare();
        let lock = beside(path, ".lock");
        let taken = take(&lock).map_err(|error| match error {
            TryLockError::WouldBlock => {
                let path = path.display();
                format!("another server uses {path}; give each its own")
            }
            TryLockError::Error(error) => format!("{}: {error}", lock.display()),
        })?;
        remove_old(path);
        Ok(Self {
            path: path.to_owned(),
            size: size.max(MIN_SIZE),
            lock: Some(Arc::new(taken)),
        })
    }

    pub(super) fn lock_of_process(&self) -> Weak<File> {
        self.lock.as_ref().map_or_else(Weak::new, Arc::downgrade)
    }

    /// Gives the path up, for the process that has the lock, too.
    pub(super) fn give_up(&mut self) {
        self.lock = None;
    }

    /// Notes of names below wildcards that may lie in the file: a sixteenth of
    /// it.
    pub(super) fn max_notes(&self) -> i64 {
        i64::try_from(self.size / 2048).unwrap_or(i64::MAX)
    }

    /// The pages that the file may have, beside its write-ahead log.
    pub(super) fn pages(&self) -> u64 {
        (self.size - self.wal_bytes()) / PAGE
    }

    /// Bytes of copies that one transaction may add: as much as the write-ahead log has for it.
    pub(super) fn batch_bytes(&self) -> usize {
        usize::try_from(self.wal_bytes() / 2).unwrap_or(usize::MAX)
    }

    /// The write-ahead log's part of the size, and twice what may stand in it before
    /// it is moved into the file: the second half is for the transaction at the time.
    fn wal_bytes(&self) -> u64 {
        (self.size / 4).min(MAX_WAL)
    }

    /// Opens what lies there if it is of this store; else makes it anew.
    pub(super) fn open(&self, meta: &Meta) -> Result<(Connection, Meta)> {
        if self.is_ours()? {
            let why = match self.opened(meta) {
                Ok(Ok(opened)) => return Ok(opened),
                Ok(Err(why)) => why,
                Err(error) if is_damage(&error) => error.to_string(),
                Err(error) => return Err(self.fault(&error)),
            };
            tracing::warn!(file = %self.path.display(), why, "the disk cache is started anew");
        }
        Ok((self.make(meta)?, meta.clone()))
    }

    /// Removes what lies there and makes an empty file.
    pub(super) fn make(&self, meta: &Meta) -> Result<Connection> {
        self.remove().map_err(|error| self.fault(&error))?;
        // The file has its name only when it is whole: what has that name and
        // does not say what it is was never ours.
        let fresh = beside(&self.path, ".new");
        let made = remove(&fresh).and_then(|()| create(&fresh));
        made.map_err(|error| self.fault(&error))?;
        let fill = || {
            let connection = Connection::open_with_flags(&fresh, flags())?;
            tables::create(&connection, meta)?;
            connection.close().map_err(|(_, error)| error)
        };
        fill().map_err(|error| self.fault(&error))?;
        fs::rename(&fresh, &self.path).map_err(|error| self.fault(&error))?;
        self.connect().map_err(|error| self.fault(&error))
    }

    /// Removes the file and its write-ahead log.
    pub(super) fn remove(&self) -> io::Result<()> {
        of_database(&self.path)
            .iter()
            .try_for_each(|file| remove(file))
    }

    /// Opens a file of ours, or says why it is of no use to anybody.
    fn opened(&self, wanted: &Meta) -> rusqlite::Result<Result<(Connection, Meta)>> {
        if fs::metadata(&self.path).is_ok_and(|there| there.len() > self.size) {
            return Ok(Err("it is larger than it may be now".into()));
        }
        let connection = self.connect()?;
        let (version, known) = (tables::version(&connection)?, tables::VERSION);
        if version != known {
            let why = format!("it has version {version}, this program knows {known}");
            return Ok(Err(why));
        }
        let meta = tables::meta(&connection)?;
        Ok(match meta.store == wanted.store {
            true => Ok((connection, meta)),
            false => Err("it belongs to another store".into()),
        })
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&self.path, flags())?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        let wal = self.wal_bytes();
        // Exclusive: without the memory that processes would share. A negative
        // size of the cache is in KiB instead of pages.
        connection.execute_batch(&format!(
            "PRAGMA locking_mode = exclusive;
             PRAGMA journal_mode = wal;
             PRAGMA synchronous = normal;
             PRAGMA temp_store = memory;
             PRAGMA mmap_size = 0;
             PRAGMA cache_size = -{CACHE_KIB};
             PRAGMA wal_autocheckpoint = {};
             PRAGMA journal_size_limit = {wal};
             PRAGMA max_page_count = {};",
            wal / 2 / PAGE,
            self.pages(),
        ))?;
        Ok(connection)
    }

    /// Tells whether a disk cache lies there; an error if it is another program's
    /// file.
    fn is_ours(&self) -> Result<bool> {
        let read = || -> io::Result<Vec<u8>> {
            let mut head = Vec::with_capacity(HEADER);
            let file = File::open(&self.path)?;
            file.take(HEADER as u64).read_to_end(&mut head)?;
            Ok(head)
        };
        let head = match read() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(false),
            read => read.map_err(|error| self.fault(&error))?,
        };
        // A crash of the system may leave zeros of a file just made.
        if head.iter().all(|byte| *byte == 0) {
            return Ok(false);
        }
        let is_ours = head.starts_with(b"SQLite format 3\0")
            && head.get(68..72) == Some(&APPLICATION_ID.to_be_bytes());
        match is_ours {
            true => Ok(true),
            false => {
                let path = self.path.display();
                Err(format!(
                    "{path} is no disk cache; name another one, or remove it"
                ))
            }
        }
    }

    fn fault(&self, why: &dyn fmt::Display) -> String {
        format!("{}: {why}", self.path.display())
    }
}

/// Tells damage of the file from failures to reach it.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    match error.sqlite_error_code() {
        Some(code) => matches!(
            code,
            ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::Unknown
        ),
        // A value of another kind than its column's, a missing row.
        None => true,
    }
}

/// Removes the file of a version that had another default name for it, with the
/// key beside it, unless a server of that version runs.
fn remove_old(path: &Path) {
    let old = path.with_file_name(OLD_NAME);
    let is_default = path.file_name().is_some_and(|name| name == NAME);
    if is_default && old.exists() && locked(&beside(&old, ".lock")).is_ok() {
        let mut files = [beside(&old, ".key"), beside(&old, ".lock")]
            .into_iter()
            .chain(of_database(&old));
        if let Err(error) = files.try_for_each(|file| remove(&file)) {
            tracing::warn!(file = %old.display(), %error, "an old disk cache stays; remove it");
        }
    }
}

fn locked(path: &Path) -> std::result::Result<File, TryLockError> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(TryLockError::Error)?;
    file.try_lock().map(|()| file)
}

/// Tells whether this is the open file of what lies at a path.
fn is_file_at(file: &File, path: &Path) -> bool {
    let id = |there: fs::Metadata| (there.dev(), there.ino());
    let (file, there) = (file.metadata().map(id), fs::metadata(path).map(id));
    matches!((file, there), (Ok(file), Ok(there)) if file == there)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

/// The default name, and that of earlier versions.
const NAME: &str = "disk-cache.db";
const OLD_NAME: &str = "warm.db";
/// SQLite's default, of which sizes are multiples.
pub(super) const PAGE: u64 = 4096;
/// A smaller file has no room for a write-ahead log and a batch.
const MIN_SIZE: u64 = 4 << 20;
/// A larger write-ahead log only takes longer to read after a crash.
const MAX_WAL: u64 = 8 << 20;
/// The upper levels of the tables; a start without the store reads each copy
/// once.
const CACHE_KIB: i32 = 512;
/// Of each SQLite file (<https://sqlite.org/fileformat.html>, section 1.3).
const HEADER: usize = 100;
