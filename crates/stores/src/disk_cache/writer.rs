//! The thread that has the file open, and what it does there.

mod changes;
mod inbox;
mod keep;

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::RecvTimeoutError;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, Result};

use self::inbox::Task;
pub(super) use self::inbox::{Inbox, Kept, Tasks};
use super::counts::Counts;
use super::file::{PAGE, Place, is_damage};
use super::tables::{self, Meta};
use super::written::Written;
use crate::stored;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Noted, Recent, Seen};
use sekisho_certs::store::{CatalogId, Document, Found, LogPosition};

/// Owns the file.
pub(super) struct Writer {
    /// None while no file can be made. It is closed before the lock goes.
    pub(super) connection: Option<Connection>,
    place: Place,
    /// What the file says, or would say.
    meta: Meta,
    /// Those that lie in the file: one that is made anew gets them again.
    documents: Vec<Document<SealedBytes>>,
    /// The changes of late: what was read before one of them is not kept.
    recent: Recent,
    seen: Arc<Seen>,
    /// The epoch of `seen` in which the file's position counts.
    epoch: u64,
    written: Arc<Written>,
    counts: Arc<Counts>,
    /// Whether the trouble of now was logged.
    is_logged: bool,
    /// When to try again to make a file.
    retry: Option<Instant>,
}

impl Writer {
    pub(super) fn new(
        place: Place,
        connection: Connection,
        meta: Meta,
        documents: Vec<Document<SealedBytes>>,
        seen: Arc<Seen>,
    ) -> Self {
        let mut recent = Recent::default();
        if let Some(position) = meta.position {
            recent.restart(position);
        }
        Self {
            connection: Some(connection),
            place,
            meta,
            documents,
            recent,
            epoch: seen.note().epoch,
            seen,
            written: Arc::default(),
            counts: Arc::default(),
            is_logged: false,
            retry: None,
        }
    }

    pub(super) fn sharing(self, written: Arc<Written>, counts: Arc<Counts>) -> Self {
        Self {
            written,
            counts,
            ..self
        }
    }

    /// Works until all inboxes are gone. What is to be kept waits a little for
    /// more to share a transaction with; a call never does.
    pub(super) fn run(mut self, tasks: &Tasks) {
        self.count();
        let mut batch = Vec::with_capacity(BATCH);
        let mut due = None::<Instant>;
        loop {
            let task = match due {
                None => tasks.receiver.recv().map_err(RecvTimeoutError::from),
                Some(due) => {
                    let left = due.saturating_duration_since(Instant::now());
                    tasks.receiver.recv_timeout(left)
                }
            };
            if tasks.load.overflowed.swap(false, Ordering::AcqRel) {
                tracing::warn!("the disk is too slow for its cache, all copies are dropped");
                self.start_over(self.meta.position);
            }
            match task {
                Ok(Task::Call(call)) => {
                    call(&mut self);
                    tasks.load.called();
                }
                Ok(Task::Keep(kept)) => {
                    due.get_or_insert_with(|| Instant::now() + BATCH_DELAY);
                    batch.push(kept);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.keep(&batch),
            }
            let is_due = due.is_some_and(|due| due <= Instant::now());
            if is_due || batch.len() == BATCH {
                self.keep(&batch);
                tasks.load.kept(&batch);
                batch.clear();
                due = None;
            }
        }
    }

    /// How far the copies are right.
    pub(super) fn position(&self) -> Option<LogPosition> {
        self.meta.position
    }

    /// The copy that answers, if there is one that can be read and is as far
    /// as the log was seen.
    pub(super) fn find(&mut self, name: &HostName, noted: Noted) -> Option<Found<SealedBytes>> {
        if let Some(seen) = noted.position {
            let at = self.meta.position?;
            if noted.epoch != self.epoch || at.log != seen.log || at.number < seen.number {
                return None;
            }
        }
        let (pattern, copy) = self.read(|connection| tables::find(connection, name))??;
        let mut found = match stored::read_found(&copy.bytes) {
            Ok(found) if found.record.pattern.covers(name) => found,
            unusable => {
                let why = unusable
                    .err()
                    .map_or("it is of another name".into(), |why| why.to_string());
                self.drop_unusable(&pattern, &why);
                return None;
            }
        };
        found.shadowed = copy.shadowed;
        Some(found)
    }

    /// Keeps what a start needs of this catalog. Copies of another one are
    /// dropped.
    pub(super) fn keep_documents(
        &mut self,
        catalog: CatalogId,
        documents: Vec<Document<SealedBytes>>,
    ) {
        if self
            .meta
            .catalog
            .replace(catalog)
            .is_some_and(|other| other != catalog)
        {
            tracing::error!(
                "the store is another catalog than the disk cache was filled from; its copies are \
                 dropped"
            );
            self.start_over(self.meta.position);
            self.meta.catalog = Some(catalog);
        }
        self.documents = documents;
        self.write_documents();
    }

    fn write_documents(&mut self) {
        let documents = std::mem::take(&mut self.documents);
        let catalog = self.meta.catalog;
        self.write(|connection| tables::set_start(connection, catalog, &documents));
        self.documents = documents;
    }

    /// Drops a copy that turned out to be of no use. Clients choose how often
    /// it is looked for, so only dropping it is told of.
    pub(super) fn drop_unusable(&mut self, pattern: &str, why: &str) {
        let mut gone = 0;
        self.write(|connection| {
            gone = tables::drop_pattern(connection, pattern)?;
            Ok(())
        });
        if gone > 0 {
            self.written.clear();
            self.counts.changed(0, gone);
            tracing::warn!(pattern, why, "a copy on disk can't be used and is dropped");
        }
    }

    /// Drops everything; changes behind that position are applied from now on.
    pub(super) fn start_over(&mut self, position: Option<LogPosition>) {
        self.meta.position = position;
        self.meta.catalog = None;
        self.documents.clear();
        self.epoch = self.seen.note().epoch;
        if let Some(position) = position {
            self.recent.restart(position);
        }
        self.make();
    }

    /// Reads; none if nothing can be read.
    fn read<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Option<T> {
        let read = work(self.connection.as_ref()?);
        read.map_err(|error| self.trouble(&error)).ok()
    }

    /// Writes what may be lost.
    fn write(&mut self, work: impl FnOnce(&Connection) -> Result<()>) {
        if self.is_ready()
            && let Some(connection) = &self.connection
            && let Err(error) = work(connection)
        {
            self.trouble(&error);
        }
    }

    fn trouble(&mut self, error: &rusqlite::Error) {
        if is_damage(error) {
            let file = self.place.path().display();
            tracing::warn!(%file, %error, "the disk cache is damaged and started anew");
            self.make();
        } else if !std::mem::replace(&mut self.is_logged, true) {
            let file = self.place.path().display();
            tracing::warn!(%file, %error, "nothing is written to the disk cache until this is over");
        }
    }

    /// Makes an empty file in the place of what lies there.
    fn make(&mut self) {
        self.connection = None;
        self.retry = None;
        self.written.clear();
        self.counts.clear();
        match self.place.make(&self.meta) {
            Ok(connection) => {
                self.connection = Some(connection);
                self.write_documents();
            }
            Err(why) => {
                self.retry = Some(Instant::now() + RETRY);
                // What could not be replaced must not answer after a restart.
                let removed = self.place.remove();
                if !std::mem::replace(&mut self.is_logged, true) {
                    let left = removed.err().map(|error| error.to_string());
                    tracing::warn!(why, left, "there is no disk cache until this is over");
                }
            }
        }
    }

    fn is_ready(&mut self) -> bool {
        if self.connection.is_none() && self.retry.is_some_and(|retry| Instant::now() >= retry) {
            self.make();
        }
        self.connection.is_some()
    }

    fn count(&mut self) {
        let Some(copies) = self.read(tables::count) else {
            return;
        };
        self.counts
            .changed(usize::try_from(copies).unwrap_or(usize::MAX), 0);
        self.measure();
        let file = self.place.path().display();
        tracing::info!(%file, copies, "the disk cache answers should the store be down");
    }

    fn measure(&mut self) {
        if let Some(pages) = self.read(tables::pages) {
            self.counts.measured(pages.saturating_mul(PAGE));
        }
    }
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// One transaction: what it adds to the log stays small.
const BATCH: usize = 32;
/// How long the first waits for more to share a transaction with.
const BATCH_DELAY: Duration = Duration::from_millis(20);
/// Copies dropped by one statement: what it adds to the log stays small.
const STEP: usize = 32;
/// How often it is tried to make a file where none could be made.
const RETRY: Duration = Duration::from_secs(60);
