//! Owns the file, and does on its thread what the cache is asked for.

mod apply;
mod hold;
mod keep;

use std::sync::Arc;

use rusqlite::{Connection, Result};

use self::hold::Hold;
use super::Shared;
use super::file::{CacheFile, PAGE, is_damage};
use super::tables::{self, Meta};
use crate::stored;
use sekisho_certs::Noted;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::Recent;
use sekisho_certs::seal::CHECK;
use sekisho_certs::store::{CatalogId, Document, Found, LogPosition};

/// The only user of the file.
pub(super) struct Writer {
    /// Connection; none while no file can be made. Closed before the lock goes.
    pub(super) connection: Option<Connection>,
    file: CacheFile,
    /// Row of the file, or of the next one that can be made.
    meta: Meta,
    /// The changes of late: what was read before one of them is not kept.
    recent: Recent,
    /// The epoch of [`Shared::seen`] in which the file's position counts. `recent`
    /// counts epochs of its own.
    seen_epoch: u64,
    shared: Arc<Shared>,
    /// True once the present failure was logged.
    is_logged: bool,
    hold: Hold,
}

impl Writer {
    pub(super) fn new(
        file: CacheFile,
        connection: Connection,
        meta: Meta,
        shared: Arc<Shared>,
    ) -> Self {
        let mut recent = Recent::default();
        if let Some(position) = meta.position {
            recent.restart(position);
        }
        Self {
            connection: Some(connection),
            file,
            meta,
            recent,
            seen_epoch: shared.seen.note().epoch,
            shared,
            is_logged: false,
            hold: Hold::Held,
        }
    }

    /// How far the copies are right, if that counts in this epoch.
    pub(super) fn position(&self, epoch: u64) -> Option<LogPosition> {
        self.meta.position.filter(|_| self.seen_epoch == epoch)
    }

    /// Returns the copy that answers, if it can be read and the file is as far
    /// as the log was seen.
    pub(super) fn find(&mut self, name: &HostName, noted: Noted) -> Option<Found<SealedBytes>> {
        if let Some(seen) = noted.position {
            let at = self.position(noted.epoch)?;
            if at.log != seen.log || at.number < seen.number {
                return None;
            }
        }
        let (pattern, copy) = self.with_file(|connection| tables::find(connection, name))??;
        let why = match stored::read_found(&copy.bytes) {
            Ok(mut found) if found.record.pattern.covers(name) => {
                found.shadowed = copy.shadowed;
                return Some(found);
            }
            Ok(_) => "it is of another name".to_owned(),
            Err(why) => why.to_string(),
        };
        self.drop_unusable(&pattern, &why);
        None
    }

    /// Keeps what a start needs of this catalog. Copies of another one are
    /// dropped.
    pub(super) fn keep_documents(
        &mut self,
        catalog: CatalogId,
        documents: &[Document<SealedBytes>],
    ) {
        if self.meta.catalog.is_some_and(|other| other != catalog) {
            tracing::error!(
                "the store is another catalog than the disk cache was filled from; its copies are \
                 dropped"
            );
            self.make();
        }
        self.meta.catalog = Some(catalog);
        if self.ensure_file() {
            let kept =
                self.with_file(|connection| tables::set_start(connection, catalog, documents));
            let is_enough = kept.is_some()
                && self.meta.position.is_some()
                && documents.iter().any(|one| one.id == CHECK);
            self.shared.stats.start_state.set(is_enough.into());
        }
    }

    /// Drops a copy that turned out to be of no use. Clients choose how often
    /// it is looked for, so only dropping it is logged.
    pub(super) fn drop_unusable(&mut self, pattern: &str, why: &str) {
        let drop = |connection: &Connection| tables::drop_pattern(connection, pattern);
        let gone = self.with_file(drop).unwrap_or(0);
        if gone > 0 {
            self.shared.written.clear();
            self.shared.count_copies(0, gone);
            tracing::warn!(pattern, why, "a copy on disk can't be used and is dropped");
        }
    }

    /// Drops everything. Changes behind that position are applied from now on.
    pub(super) fn start_over(&mut self, noted: Noted) {
        self.seen_epoch = noted.epoch;
        self.meta.position = noted.position;
        if let Some(position) = noted.position {
            self.recent.restart(position);
        }
        self.make();
    }

    /// Reads or writes the file; none if there is none, or it failed.
    fn with_file<T>(&mut self, work: impl FnOnce(&Connection) -> Result<T>) -> Option<T> {
        let done = work(self.connection.as_ref()?);
        done.map_err(|error| self.failed(&error)).ok()
    }

    fn failed(&mut self, error: &rusqlite::Error) {
        let file = self.file.path.display();
        if is_damage(error) {
            tracing::warn!(%file, %error, "the disk cache is damaged and started anew");
            self.make();
        } else if !std::mem::replace(&mut self.is_logged, true) {
            tracing::warn!(%file, %error, "nothing is written to the disk cache until this is over");
        }
    }

    /// Makes an empty file in the place of what lies there.
    fn make(&mut self) {
        self.connection = None;
        self.meta.catalog = None;
        self.shared.written.clear();
        self.shared.stats.copies.set(0);
        self.shared.stats.bytes.set(0);
        self.shared.stats.start_state.set(0);
        match self.file.make(&self.meta) {
            Ok(connection) => {
                self.connection = Some(connection);
                // The new file lacks the documents.
                self.shared.resync.request();
            }
            Err(why) => {
                // Copies that could not be dropped must not answer after a restart.
                let removed = self.file.remove();
                if !std::mem::replace(&mut self.is_logged, true) {
                    let left = removed.err().map(|error| error.to_string());
                    tracing::warn!(why, left, "there is no disk cache until this is over");
                }
            }
        }
    }

    /// Tries again to make a file where none could be made: once for each batch.
    /// Returns whether there is one.
    fn ensure_file(&mut self) -> bool {
        if self.connection.is_none() {
            self.make();
        }
        self.connection.is_some()
    }

    /// Counts the copies that lie in the file.
    pub(super) fn count(&mut self) {
        let Some(copies) = self.with_file(tables::count) else {
            return;
        };
        self.shared.stats.copies.set(copies);
        self.measure();
        let file = self.file.path.display();
        tracing::info!(%file, copies, "the disk cache answers should the store be down");
    }

    fn measure(&mut self) {
        if let Some(pages) = self.with_file(tables::pages) {
            self.shared.stats.bytes.set(pages.saturating_mul(PAGE));
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.keep_pending();
    }
}

/// Copies dropped by one statement: what it adds to the write-ahead log stays
/// small.
const MAX_DROPPED: usize = 32;
