//! The file: making it, opening it, and noticing that it is gone or another.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::{Duration, Instant};

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};

use super::fault::{explain, read_only, unreachable_file, unusable};
use super::nowait;
use super::read::StoreConnection;
use super::schema::{self, Header};
use super::slot::{Role, Slot};
use super::{Mode, Options};
use crate::fault::unavailable;
use crate::own_file::{beside, create};
use sekisho_certs::lock;
use sekisho_certs::store::{CatalogId, Result};

/// The store file and every connection to it in this process.
#[derive(Debug)]
pub(crate) struct StoreFile {
    pub(super) path: PathBuf,
    pub(super) options: Options,
    current: Mutex<Current>,
    /// Learnt at the first opening; a file put in its place must have it too.
    catalog: OnceLock<CatalogId>,
}

/// The file that lies at the path now, and the connections to it.
#[derive(Debug, Default)]
struct Current {
    /// Identity of the file; none while it is missing.
    identity: Option<Identity>,
    /// How often another file was put in its place.
    generation: u64,
    /// The write-ahead log of the open file.
    wal: Option<Identity>,
    slots: Vec<Weak<Slot>>,
    /// Nothing is opened any more.
    closed: bool,
}

impl StoreFile {
    pub(super) fn open(
        path: &Path,
        mode: Mode,
        options: &Options,
    ) -> Result<(Arc<Self>, StoreConnection)> {
        nowait::prepare();
        if mode == Mode::Create {
            make(path)?;
        }
        let file = Arc::new(Self {
            path: path.to_owned(),
            options: options.clone(),
            current: Mutex::new(Current {
                identity: identity(path),
                ..Current::default()
            }),
            catalog: OnceLock::new(),
        });
        let mut connection = file.connect(Role::Reader)?;
        if mode == Mode::Create {
            schema::create(&mut connection, options.busy).map_err(|error| explain(path, &error))?;
        }
        let connection = file.checked(connection, Role::Reader)?;
        Ok((file, connection))
    }

    /// The identity that all connections agree on.
    pub(super) fn catalog(&self) -> CatalogId {
        *self.catalog.get().expect("opening has read it")
    }

    /// A slot for a connection, which a replaced file empties.
    pub(super) fn slot(
        self: &Arc<Self>,
        connection: Option<StoreConnection>,
        role: Role,
    ) -> Arc<Slot> {
        let slot = Arc::new(Slot::new(Arc::clone(self), role, connection));
        let mut current = lock(&self.current);
        current.slots.retain(|slot| slot.strong_count() > 0);
        current.slots.push(Arc::downgrade(&slot));
        drop(current);
        slot
    }

    fn slots(&self) -> Vec<Arc<Slot>> {
        let current = lock(&self.current);
        current.slots.iter().filter_map(Weak::upgrade).collect()
    }

    /// Compares the file with the one that is open. If it is another or gone,
    /// closes every connection, and says true. Only the watch calls it, again and
    /// again.
    ///
    /// A call under way, such as a write that waits for another process, may keep its
    /// connection for 30 s. The others are then let go after [`MAX_TAKING`] and go on
    /// with the old file until the next attempt: lookups never wait for such a call.
    ///
    /// All are closed before the first is opened again, and the old file's
    /// write-ahead log is moved into it and out of the way: a connection that finds
    /// it would read its pages as the new file's. A slot that opens holds its
    /// own lock, so the slots come before the file.
    pub(super) fn follow(&self) -> bool {
        if lock(&self.current).identity == identity(&self.path) {
            return false;
        }
        let mut slots = self.slots();
        // The one that is most likely kept delays no other.
        slots.sort_by_key(|slot| slot.role != Role::Writer);
        let deadline = Instant::now() + MAX_TAKING;
        let taken = slots.iter().map(|slot| slot.lock_until(deadline));
        let Some(mut taken) = taken.collect::<Option<Vec<_>>>() else {
            return false;
        };
        let now = identity(&self.path);
        let open = taken.iter_mut().find_map(|connection| connection.as_mut());
        let emptied = open.is_some_and(|connection| connection.empty_wal().unwrap_or(false));
        taken.iter_mut().for_each(|one| drop(one.take()));
        let mut current = lock(&self.current);
        let wal = current.wal.take();
        if wal.is_some_and(|wal| identity(&beside(&self.path, "-wal")) == Some(wal)) {
            self.clear_wal(emptied);
        }
        current.identity = now;
        current.generation += 1;
        true
    }

    /// Removes the write-ahead log that an old file left at the path. If it could
    /// not be emptied, it may be all there is of a commit, and is kept aside.
    fn clear_wal(&self, emptied: bool) {
        let wal = beside(&self.path, "-wal");
        let cleared = match emptied {
            true => fs::remove_file(&wal),
            false => fs::rename(&wal, beside(&self.path, "-wal.old")),
        };
        if let Err(error) = cleared.and_then(|()| fs::remove_file(beside(&self.path, "-shm"))) {
            let wal = wal.display();
            tracing::warn!("{wal} of the file that was replaced can't be cleared away: {error}");
        }
    }

    /// Closes all connections. The last of them takes the write-ahead log with it:
    /// a stale one would harm a file restored later.
    ///
    /// Calls under way end first, for [`MAX_CLOSING`] in all. Every slot is taken
    /// before the first connection is closed: a connection that another thread is
    /// just opening does not clear the log, and would be the last one.
    pub(super) fn close(&self) {
        lock(&self.current).closed = true;
        let slots = self.slots();
        let deadline = Instant::now() + MAX_CLOSING;
        let taken = slots.iter().filter_map(|slot| slot.lock_until(deadline));
        let taken: Vec<_> = taken.collect();
        for mut connection in taken {
            drop(connection.take());
        }
    }

    /// Opens one more connection to the same file and checks its header.
    pub(super) fn opened(&self, role: Role) -> Result<StoreConnection> {
        self.checked(self.connect(role)?, role)
    }

    pub(super) fn connect(&self, role: Role) -> Result<Connection> {
        let path = &self.path;
        if let Err(error) = fs::metadata(path) {
            return Err(unreachable_file(path, &error));
        }
        self.same_file()?;
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let fault = |error| explain(path, &error);
        let connection = Connection::open_with_flags(path, flags).map_err(fault)?;
        if connection.is_readonly("main").map_err(fault)? {
            return Err(read_only(path));
        }
        self.set_up(&connection, role).map_err(fault)?;
        Ok(connection)
    }

    fn set_up(&self, connection: &Connection, role: Role) -> rusqlite::Result<()> {
        // Until it is known to be the right file, closing it must not move
        // into it what may be another file's write-ahead log.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
        connection.busy_timeout(role.busy_timeout(&self.options))?;
        // Without this, a statement whose plan could depend on a value is
        // prepared again for each value: two thirds of a handshake's read.
        connection.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
        connection.set_prepared_statement_cache_capacity(MAX_STATEMENTS);
        let cache = role.cache_kib();
        // A negative size of the cache is in KiB instead of pages. Synchronous
        // commits are durable when they return, over a power cut too. Mapped pages
        // would count as the process's own, and outgrow its cache's bound.
        connection.execute_batch(&format!(
            "PRAGMA mmap_size = 0;
             PRAGMA cache_size = -{cache};
             PRAGMA temp_store = memory;
             PRAGMA synchronous = full;
             PRAGMA journal_size_limit = {WAL_BYTES};"
        ))
    }

    /// Accepts a connection whose file is a store of ours, of this catalog,
    /// and still the one that lies at the path.
    pub(super) fn checked(
        &self,
        mut connection: Connection,
        role: Role,
    ) -> Result<StoreConnection> {
        let fault = |error| explain(&self.path, &error);
        let mut header = schema::header(&connection).map_err(fault)?;
        if matches!(header, Header::Store { version, .. } if version < schema::VERSION) {
            schema::migrate(&mut connection).map_err(fault)?;
            header = schema::header(&connection).map_err(fault)?;
        }
        if let Some(error) = unusable(&self.path, &header) {
            return Err(error);
        }
        schema::switch_to_wal(&connection, role.busy_timeout(&self.options)).map_err(fault)?;
        let catalog = schema::catalog_id(&connection).map_err(fault)?;
        if *self.catalog.get_or_init(|| catalog) != catalog {
            return Err(unavailable(format!(
                "{} was replaced by the file of another catalog; restart to serve that one, or \
                 put the right file back",
                self.path.display()
            )));
        }
        let generation = self.same_file()?;
        lock(&self.current).wal = identity(&beside(&self.path, "-wal"));
        connection
            .set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, false)
            .map_err(fault)?;
        Ok(StoreConnection::new(connection, &self.path, generation))
    }

    /// The generation of the file at the path, if it is the one that all
    /// connections are open to.
    pub(super) fn same_file(&self) -> Result<u64> {
        let current = lock(&self.current);
        if current.closed {
            return Err(unavailable("the store is being closed"));
        }
        if identity(&self.path) == current.identity {
            return Ok(current.generation);
        }
        let path = self.path.display();
        Err(unavailable(format!("{path} is just being replaced")))
    }
}

/// Makes the file if it is missing, for its owner only. SQLite gives its
/// write-ahead log the same mode.
fn make(path: &Path) -> Result<()> {
    match create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
            Err(unreachable_file(path, &error))
        }
        _ => Ok(()),
    }
}

/// Device and inode.
type Identity = (u64, u64);

fn identity(path: &Path) -> Option<Identity> {
    let metadata = fs::metadata(path).ok()?;
    Some((metadata.dev(), metadata.ino()))
}

/// More than this program has statements, so that each is prepared once.
const MAX_STATEMENTS: usize = 96;
/// How long the connections of a file that was replaced are waited for at once: as
/// long as the watch pauses.
const MAX_TAKING: Duration = Duration::from_millis(25);
/// How long closing waits for calls under way. A stalled disk, or another process's
/// long transaction, delays the end of the process by no more.
const MAX_CLOSING: Duration = Duration::from_secs(5);
/// The write-ahead log is cut back to this after a large import.
const WAL_BYTES: i64 = 16 << 20;
