//! The thread that has the file of copies open, and what it does there.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, Result};

use super::counts::Counts;
use super::file::{PAGE, Place, is_damage};
use super::queue::{Kept, Queue, Task};
use super::seen::{self, Seen};
use super::tables::{self, Copy, Meta};
use crate::stored;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Meanwhile, Reading, Recent};
use sekisho_certs::store::{CatalogId, Change, Document, Found, LogPosition};

mod changes;

/// What the thread owns and shares.
pub(super) struct Keeper {
    /// None while no file can be made. It is closed before the lock goes.
    pub(super) connection: Option<Connection>,
    pub(super) place: Place,
    /// What the file says, or would say.
    pub(super) meta: Meta,
    /// Those that lie in the file: one that is made anew gets them again.
    pub(super) documents: Vec<Document<SealedBytes>>,
    /// What the log said of late.
    pub(super) recent: Arc<Mutex<Recent>>,
    pub(super) seen: Arc<Seen>,
    pub(super) counts: Arc<Counts>,
    /// Whether the trouble of now was told.
    pub(super) complained: bool,
    /// When to try again to make a file.
    pub(super) retry: Option<Instant>,
}

impl Keeper {
    /// Works until the queue is closed.
    pub(super) fn run(mut self, queue: &Queue<Self>) {
        self.count();
        while let Some(task) = queue.next() {
            match task {
                Task::Lost => {
                    tracing::warn!("the disk is too slow for the copies on it, all are dropped");
                    self.start_over(self.meta.position);
                }
                Task::Call(call) => call(&mut self),
                Task::Keep(batch) => self.keep(&batch),
            }
        }
    }

    /// The copy that answers, if there is one that can be read.
    pub(super) fn find(&mut self, name: &HostName) -> Option<Found<SealedBytes>> {
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

    pub(super) fn document(&mut self, kind: &str, key: &str) -> Option<Document<SealedBytes>> {
        self.read(|connection| tables::document(connection, kind, key))?
    }

    /// Remembers a document that the store gave.
    pub(super) fn put_document(&mut self, document: Document<SealedBytes>) {
        self.write(|connection| tables::put_document(connection, &document));
        self.documents.retain(|other| !is_same(other, &document));
        self.documents.push(document);
    }

    /// The store has no such document.
    pub(super) fn drop_document(&mut self, kind: &str, key: &str) {
        self.documents
            .retain(|other| other.kind != kind || other.key != key);
        self.write(|connection| tables::forget_document(connection, kind, key));
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
            self.seen.clear();
            self.counts.changed(0, gone);
            tracing::warn!(pattern, why, "a copy on disk can't be used and is dropped");
        }
    }

    /// Copies are of this catalog from now on, and of no other.
    pub(super) fn belong_to(&mut self, catalog: CatalogId) {
        let other = self.meta.catalog.replace(catalog);
        match other {
            Some(other) if other == catalog => {}
            Some(_) => self.start_over(None),
            None => self.write(|connection| tables::set_catalog(connection, Some(catalog))),
        }
    }

    /// Drops everything; changes behind that position are applied from now on.
    pub(super) fn start_over(&mut self, position: Option<LogPosition>) {
        self.meta.position = position;
        self.documents.clear();
        self.make();
    }

    fn keep(&mut self, batch: &[Kept]) {
        let number = batch.len();
        if !self.is_ready() {
            return self.counts.dropped(number);
        }
        let mut kept = self.try_keep(batch);
        if matches!(&kept, Err(error) if is_full(error)) && self.is_crowded() {
            kept = self
                .make_room(number * 2)
                .and_then(|()| self.try_keep(batch));
        }
        match kept {
            Ok(()) => {
                self.complained = false;
                self.measure();
            }
            Err(error) => {
                self.counts.dropped(number);
                self.trouble(&error);
            }
        }
    }

    fn try_keep(&mut self, batch: &[Kept]) -> Result<()> {
        self.make_room(0)?;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let mut done = Done::default();
        let mut marks = Vec::with_capacity(batch.len());
        let transaction = connection.unchecked_transaction()?;
        for kept in batch {
            let Some((found, mark)) = &kept.said else {
                done.gone += absent(&transaction, &kept.name)?;
                continue;
            };
            let meanwhile = meanwhile(&self.recent, kept, found);
            if meanwhile != Meanwhile::Overtaken {
                let shadowed = found.shadowed || meanwhile == Meanwhile::Shadowed;
                self.put(&transaction, &kept.name, found, shadowed, &mut done)?;
                marks.push(*mark);
            }
        }
        transaction.commit()?;
        if done.gone > 0 {
            self.seen.clear();
        }
        marks.into_iter().for_each(|mark| self.seen.put(mark));
        self.counts.changed(done.new, done.gone + done.replaced);
        self.counts.kept(done.new);
        Ok(())
    }

    fn put(
        &self,
        connection: &Connection,
        name: &HostName,
        found: &Found<SealedBytes>,
        shadowed: bool,
        done: &mut Done,
    ) -> Result<()> {
        let pattern = &found.record.pattern;
        if pattern.wildcard_parent().is_none() {
            tables::drop_note(connection, name.as_str())?;
        } else {
            // It has no record of its own any more.
            done.gone += tables::drop_pattern(connection, name.as_str())?;
            if shadowed {
                tables::note(connection, name, self.place.most_notes())?;
            }
        }
        let state = seen::state(found);
        if tables::has(connection, pattern, state, shadowed)? {
            return Ok(());
        }
        done.replaced += tables::drop_pattern(connection, pattern.as_str())?;
        match stored::write_found(found) {
            Ok(bytes) if bytes.len() <= LONGEST => {
                let copy = Copy { bytes, shadowed };
                tables::put(connection, pattern, &found.record.references, state, &copy)?;
                done.new += 1;
            }
            _ => self.counts.dropped(1),
        }
        Ok(())
    }

    /// Whether it is the file's own bound that it is near to.
    fn is_crowded(&mut self) -> bool {
        let free = self.read(|connection| {
            let most = tables::most_pages(connection)?;
            Ok((most.saturating_sub(tables::pages(connection)?), most))
        });
        free.is_some_and(|(free, most)| free < 2 * (most / 32).max(LEAST_FREE))
    }

    /// Drops the oldest copies as long as less than a part of the file is
    /// free; at least that many.
    fn make_room(&mut self, least: usize) -> Result<()> {
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let most = tables::most_pages(connection)?;
        let free = || tables::pages(connection).map(|used| most.saturating_sub(used));
        let enough = (most / 32).max(LEAST_FREE);
        if least == 0 && free()? >= enough {
            return Ok(());
        }
        let mut gone = 0;
        while gone < least || free()? < enough + (most / 64).max(LEAST_FREE / 2) {
            match tables::drop_oldest(connection, STEP)? {
                0 => break,
                number => gone += number,
            }
        }
        self.seen.clear();
        self.counts.changed(0, gone);
        Ok(())
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
            tracing::warn!(%file, %error, "the copies on disk are damaged and started anew");
            self.make();
        } else if !std::mem::replace(&mut self.complained, true) {
            let file = self.place.path().display();
            tracing::warn!(%file, %error, "copies are not written to disk until this is over");
        }
    }

    /// Makes an empty file in the place of what lies there.
    fn make(&mut self) {
        self.connection = None;
        self.retry = None;
        self.seen.clear();
        self.counts.clear();
        match self.place.make(&self.meta) {
            Ok(connection) => {
                self.connection = Some(connection);
                for document in std::mem::take(&mut self.documents) {
                    self.put_document(document);
                }
            }
            Err(why) => {
                self.retry = Some(Instant::now() + RETRY);
                // What could not be replaced must not answer after a restart.
                let removed = self.place.remove();
                if !std::mem::replace(&mut self.complained, true) {
                    let left = removed.err().map(|error| error.to_string());
                    tracing::warn!(why, left, "no copies are kept on disk until this is over");
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
        tracing::info!(%file, copies, "copies of hosts are on disk should the store be down");
    }

    fn measure(&mut self) {
        if let Some(pages) = self.read(tables::pages) {
            self.counts.measured(pages.saturating_mul(PAGE));
        }
    }
}

/// What a batch did to the number of copies.
#[derive(Default)]
struct Done {
    new: usize,
    /// In the place of which others were put.
    replaced: usize,
    /// Of names that have no record of their own any more.
    gone: usize,
}

/// Neither the name nor the wildcard above it is there any more.
fn absent(connection: &Connection, name: &HostName) -> Result<usize> {
    let mut gone = tables::drop_pattern(connection, name.as_str())?;
    tables::drop_note(connection, name.as_str())?;
    if let Some(above) = name.wildcard() {
        gone += tables::drop_pattern(connection, above.as_str())?;
    }
    Ok(gone)
}

fn meanwhile(recent: &Mutex<Recent>, kept: &Kept, found: &Found<SealedBytes>) -> Meanwhile {
    let Some(begun) = kept.begun else {
        return Meanwhile::Nothing;
    };
    let ids: Vec<_> = found.credentials.iter().map(|one| one.id).collect();
    let reading = Reading {
        name: &kept.name,
        pattern: Some(&found.record.pattern),
        credentials: &ids,
    };
    let recent = recent.lock().unwrap_or_else(PoisonError::into_inner);
    recent.meanwhile(begun, &reading)
}

fn is_same(one: &Document<SealedBytes>, other: &Document<SealedBytes>) -> bool {
    (&one.kind, &one.key) == (&other.kind, &other.key)
}

fn is_full(error: &rusqlite::Error) -> bool {
    error.sqlite_error_code() == Some(ErrorCode::DiskFull)
}

/// Far above a chain of ten certificates with a site.
const LONGEST: usize = 64 << 10;
/// Copies dropped by one statement: what it adds to the log stays small.
const STEP: usize = 32;
/// Pages that a batch of usual copies takes, with their indexes.
const LEAST_FREE: u64 = 128;
/// How often it is tried to make a file where none could be made.
const RETRY: Duration = Duration::from_secs(60);
