//! The file of the disk cache: its lock, opening it, making it anew.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, ErrorCode, OpenFlags};

use super::tables::{self, APPLICATION_ID, Meta};
use crate::sqlite::nowait;

/// A path that this process alone uses for copies, for as long as it lives.
#[derive(Debug)]
pub(super) struct Place {
    path: PathBuf,
    size: u64,
    /// The system frees it with the process, however that ends.
    _lock: File,
}

/// What can't be used, in words for the operator.
pub(super) type Result<T> = std::result::Result<T, String>;

impl Place {
    /// Takes the lock.
    pub(super) fn take(path: &Path, size: u64) -> Result<Self> {
        nowait::prepare();
        let lock = beside(path, ".lock");
        let fault = |error: io::Error| format!("{}: {error}", lock.display());
        let file = match locked(&lock) {
            Ok(file) => file,
            Err(TryLockError::WouldBlock) => {
                let path = path.display();
                return Err(format!("another server uses {path}; give each its own"));
            }
            Err(TryLockError::Error(error)) => return Err(fault(error)),
        };
        let place = Self {
            path: path.to_owned(),
            size: size.max(LEAST),
            _lock: file,
        };
        place.take_over();
        Ok(place)
    }

    /// Takes over the file of a version that had another name for it, with the
    /// key beside it; removes it if there is a new one already.
    fn take_over(&self) {
        let old = self.path.with_file_name(OLD_NAME);
        let is_default = self.path.file_name().is_some_and(|name| name == NAME);
        if !is_default || !old.exists() || locked(&beside(&old, ".lock")).is_err() {
            return;
        }
        let is_new = self.path.exists();
        // The log first: alone it says nothing.
        for suffix in ["-wal", ".key", ""] {
            let (from, to) = (beside(&old, suffix), beside(&self.path, suffix));
            let done = match is_new {
                true => clear(&from),
                false if from.exists() => fs::rename(&from, &to),
                false => Ok(()),
            };
            if let Err(error) = done {
                tracing::warn!(file = %from.display(), %error, "an old disk cache stays; remove it");
            }
        }
        let _ = clear(&beside(&old, ".lock"));
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Notes of names below wildcards that may lie in the file: a sixteenth of
    /// it.
    pub(super) fn most_notes(&self) -> u64 {
        self.size / 2048
    }

    /// Opens what lies there if it is of this store; else makes it anew.
    pub(super) fn open(&self, meta: &Meta) -> Result<(Connection, Meta)> {
        let anew = match self.kind()? {
            Kind::Foreign => {
                let path = self.path.display();
                return Err(format!(
                    "{path} is no disk cache; name another one, or remove it"
                ));
            }
            Kind::Nothing => None,
            Kind::Ours => match self.opened(meta) {
                Ok(opened) => return Ok(opened),
                Err(Unusable::Replaced(why)) => Some(why),
                Err(Unusable::Left(why)) => return Err(why),
            },
        };
        if let Some(why) = anew {
            tracing::warn!(file = %self.path.display(), why, "the disk cache is started anew");
        }
        let connection = self.make(meta)?;
        Ok((connection, meta.clone()))
    }

    /// Removes what lies there and makes an empty file.
    pub(super) fn make(&self, meta: &Meta) -> Result<Connection> {
        let fault = |error: io::Error| format!("{}: {error}", self.path.display());
        self.remove().map_err(fault)?;
        // It has its name only when it is whole: a file of that name that does
        // not say what it is was never ours.
        let fresh = beside(&self.path, ".new");
        clear(&fresh).map_err(fault)?;
        let mut options = OpenOptions::new();
        let made = options.write(true).create_new(true).mode(0o600);
        made.open(&fresh).map_err(fault)?;
        let sql = |error: rusqlite::Error| format!("{}: {error}", self.path.display());
        let connection = Connection::open_with_flags(&fresh, flags()).map_err(sql)?;
        tables::create(&connection, meta).map_err(sql)?;
        connection.close().map_err(|(_, error)| sql(error))?;
        fs::rename(&fresh, &self.path).map_err(fault)?;
        self.connect().map_err(sql)
    }

    /// Removes the file and its log.
    pub(super) fn remove(&self) -> io::Result<()> {
        // The log first: alone it says nothing.
        for suffix in ["-wal", "-shm", "-journal", ""] {
            clear(&beside(&self.path, suffix))?;
        }
        Ok(())
    }

    /// The log's part of the size, and twice what may stand in it before it is
    /// moved into the file: the second half is for the transaction at the time.
    fn log_bytes(&self) -> u64 {
        (self.size / 4).min(MOST_LOG)
    }

    fn pages(&self) -> u64 {
        (self.size - self.log_bytes()) / PAGE
    }

    fn opened(&self, wanted: &Meta) -> std::result::Result<(Connection, Meta), Unusable> {
        let is_larger = fs::metadata(&self.path).is_ok_and(|there| there.len() > self.size);
        if is_larger {
            return Err(Unusable::Replaced("it is larger than it may be now".into()));
        }
        let connection = self.connect().map_err(|error| self.unusable(&error))?;
        let version = tables::version(&connection).map_err(|error| self.unusable(&error))?;
        if version != tables::VERSION {
            let known = tables::VERSION;
            let why = format!("it has version {version}, this program knows {known}");
            return Err(Unusable::Replaced(why));
        }
        let meta = tables::meta(&connection).map_err(|error| self.unusable(&error))?;
        if meta.store != wanted.store {
            return Err(Unusable::Replaced("it belongs to another store".into()));
        }
        Ok((connection, meta))
    }

    fn unusable(&self, error: &rusqlite::Error) -> Unusable {
        let why = format!("{}: {error}", self.path.display());
        match is_damage(error) {
            true => Unusable::Replaced(why),
            false => Unusable::Left(why),
        }
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let connection = Connection::open_with_flags(&self.path, flags())?;
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        // Ours alone: without the memory that processes would share.
        connection.pragma_update(None, "locking_mode", "exclusive")?;
        connection.pragma_update(None, "journal_mode", "wal")?;
        connection.pragma_update(None, "synchronous", "normal")?;
        connection.pragma_update(None, "temp_store", "memory")?;
        connection.pragma_update(None, "mmap_size", 0)?;
        // Negative: in KiB instead of pages.
        connection.pragma_update(None, "cache_size", -CACHE_KIB)?;
        let log = self.log_bytes();
        for (name, value) in [
            ("wal_autocheckpoint", log / 2 / PAGE),
            ("journal_size_limit", log),
            ("max_page_count", self.pages()),
        ] {
            let value = i64::try_from(value).unwrap_or(i64::MAX);
            connection.pragma_update(None, name, value)?;
        }
        Ok(connection)
    }

    fn kind(&self) -> Result<Kind> {
        let fault = |error: io::Error| format!("{}: {error}", self.path.display());
        let mut file = match File::open(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Kind::Nothing),
            opened => opened.map_err(fault)?,
        };
        let mut head = Vec::with_capacity(HEADER);
        let mut start = file.by_ref().take(HEADER as u64);
        start.read_to_end(&mut head).map_err(fault)?;
        let is_ours = head.starts_with(b"SQLite format 3\0")
            && head.get(68..72) == Some(&APPLICATION_ID.to_be_bytes());
        Ok(match is_ours {
            true => Kind::Ours,
            // What a crash of the system may leave of a file just made.
            false if head.iter().all(|byte| *byte == 0) => Kind::Nothing,
            false => Kind::Foreign,
        })
    }
}

/// What the first bytes say.
enum Kind {
    Nothing,
    Ours,
    Foreign,
}

/// Why a file of ours can't be used.
enum Unusable {
    /// It is of no use to anybody.
    Replaced(String),
    /// It may be another time.
    Left(String),
}

/// Whether it is what lies there that is wrong, not the way to it.
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

fn locked(path: &Path) -> std::result::Result<File, TryLockError> {
    let mut options = OpenOptions::new();
    let options = options.write(true).create(true).truncate(false).mode(0o600);
    let file = options.open(path).map_err(TryLockError::Error)?;
    file.try_lock().map(|()| file)
}

fn flags() -> OpenFlags {
    OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX
}

fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.to_owned().into_os_string();
    name.push(suffix);
    name.into()
}

fn clear(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// The default name, and that of earlier versions.
const NAME: &str = "disk-cache.db";
const OLD_NAME: &str = "warm.db";
/// SQLite's default, of which sizes are multiples.
pub(super) const PAGE: u64 = 4096;
/// Less has no room for a log and a batch.
const LEAST: u64 = 4 << 20;
/// A larger log only takes longer to read after a crash.
const MOST_LOG: u64 = 8 << 20;
/// The upper levels of the tables; a start without the store reads each copy
/// once.
const CACHE_KIB: i32 = 512;
/// Of each SQLite file (<https://sqlite.org/fileformat.html>, section 1.3).
const HEADER: usize = 100;
