//! Keeping what was read, a batch in a transaction.

use rusqlite::{Connection, Result};

use super::{MAX_DROPPED, Writer};
use crate::disk_cache::file::PAGE;
use crate::disk_cache::pending::Kept;
use crate::disk_cache::tables::{self, Copy};
use crate::disk_cache::written::Fingerprint;
use crate::stored;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Begun, LoadSubjects, Meanwhile};
use sekisho_certs::store::Found;

impl Writer {
    /// Writes the answers that wait. They wait on while another process has the file.
    pub(in crate::disk_cache) fn keep_pending(&mut self) {
        if !self.has_file() {
            return;
        }
        let waiting = self.shared.pending.take();
        if waiting.overflowed {
            tracing::warn!("the disk is too slow for its cache, all copies are dropped");
            self.make();
        }
        let mut rest = &*waiting.answers;
        while !rest.is_empty() {
            let length = batch_length(rest, self.file.batch_bytes());
            let (batch, after) = rest.split_at(length);
            rest = after;
            if !self.ensure_file() {
                self.shared.count_dropped(batch.len());
            } else if let Err(error) = self.keep(batch) {
                self.shared.count_dropped(batch.len());
                self.failed(&error);
            }
        }
    }

    /// Keeps a batch, whole or not at all.
    fn keep(&mut self, batch: &[Kept]) -> Result<()> {
        self.make_room(batch)?;
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let mut done = Done::default();
        let transaction = connection.unchecked_transaction()?;
        for kept in batch {
            match &kept.found {
                None => done.gone += absent(&transaction, &kept.name)?,
                Some((found, fingerprint)) => {
                    let meanwhile = self.meanwhile(kept, found);
                    if meanwhile != Meanwhile::Overtaken {
                        let shadowed = found.shadowed || meanwhile == Meanwhile::Shadowed;
                        let digest = fingerprint.digest;
                        self.put(
                            &transaction,
                            (&kept.name, found, shadowed, digest),
                            &mut done,
                        )?;
                        done.written.push(*fingerprint);
                    }
                }
            }
        }
        transaction.commit()?;
        let shared = &self.shared;
        if done.gone > 0 {
            shared.written.clear();
        }
        done.written.iter().for_each(|one| shared.written.put(*one));
        shared.count_copies(done.new, done.gone + done.replaced);
        shared.count_dropped(done.too_large);
        shared.stats.kept.inc_by(done.new as u64);
        self.is_logged = false;
        self.measure();
        Ok(())
    }

    fn put(
        &self,
        connection: &Connection,
        (name, found, shadowed, digest): (&HostName, &Found<SealedBytes>, bool, i64),
        done: &mut Done,
    ) -> Result<()> {
        let pattern = &found.record.pattern;
        if pattern.wildcard_parent().is_none() {
            tables::drop_note(connection, name.as_str())?;
        } else {
            // The name has no record of its own any more.
            done.gone += tables::drop_pattern(connection, name.as_str())?;
            if shadowed {
                tables::note(connection, name, self.file.max_notes())?;
            }
        }
        if tables::has(connection, pattern, digest, shadowed)? {
            return Ok(());
        }
        done.replaced += tables::drop_pattern(connection, pattern.as_str())?;
        match stored::write_found(found) {
            Ok(bytes) if bytes.len() <= MAX_COPY => {
                let copy = Copy { bytes, shadowed };
                tables::put(connection, &found.record, digest, &copy)?;
                done.new += 1;
            }
            _ => done.too_large += 1,
        }
        Ok(())
    }

    /// Judges what happened to an answer since its catalog was asked.
    fn meanwhile(&self, kept: &Kept, found: &Found<SealedBytes>) -> Meanwhile {
        let Some(noted) = kept.noted else {
            return Meanwhile::Nothing;
        };
        let is_same_log = |at| noted.position.filter(|seen| seen.log == at);
        let at = self.position(noted.epoch);
        let Some(seen) = at.and_then(|at| is_same_log(at.log)) else {
            return Meanwhile::Overtaken;
        };
        if noted.epoch != self.shared.seen.note().epoch {
            return Meanwhile::Overtaken;
        }
        let ids: Vec<_> = found.credentials.iter().map(|one| one.id).collect();
        let reading = LoadSubjects {
            name: &kept.name,
            pattern: Some(&found.record.pattern),
            credentials: &ids,
        };
        // `position` compared the epochs of what was seen. `recent` may have started
        // over within that epoch: it then overtakes what was read at a lower number.
        let begun = Begun {
            number: seen.number,
            epoch: self.recent.epoch,
        };
        self.recent.meanwhile(begun, &reading)
    }

    /// Drops the oldest copies until there is room for a batch, and some more:
    /// what is dropped clears [`Shared::written`](super::Shared).
    fn make_room(&mut self, batch: &[Kept]) -> Result<()> {
        let Some(connection) = &self.connection else {
            return Ok(());
        };
        let most = self.file.pages();
        let pages = |kept: &Kept| kept.weight() as u64 / PAGE + 1;
        let needed = INDEX_PAGES + batch.iter().map(pages).sum::<u64>();
        let free = || tables::pages(connection).map(|used| most.saturating_sub(used));
        if free()? >= needed {
            return Ok(());
        }
        let mut gone = 0;
        while free()? < needed + most / 64 {
            match tables::drop_oldest(connection, MAX_DROPPED)? {
                0 => break,
                number => gone += number,
            }
        }
        self.shared.written.clear();
        self.shared.count_copies(0, gone);
        Ok(())
    }
}

/// Effects of a batch.
#[derive(Default)]
struct Done {
    new: usize,
    /// Copies in the place of which others were put.
    replaced: usize,
    /// Copies of names that have no record of their own any more.
    gone: usize,
    too_large: usize,
    written: Vec<Fingerprint>,
}

/// Returns how many answers one transaction keeps: those with so many bytes together, at least
/// one.
fn batch_length(answers: &[Kept], most_bytes: usize) -> usize {
    let mut bytes = 0;
    let batch = answers.iter().take(BATCH).take_while(|kept| {
        bytes += kept.weight();
        bytes <= most_bytes
    });
    batch.count().max(1)
}

/// Drops the copies of a name without a record: its own, and that of the wildcard
/// above it.
fn absent(connection: &Connection, name: &HostName) -> Result<usize> {
    tables::drop_note(connection, name.as_str())?;
    let gone = tables::drop_pattern(connection, name.as_str())?;
    let Some(above) = name.wildcard() else {
        return Ok(gone);
    };
    Ok(gone + tables::drop_pattern(connection, above.as_str())?)
}

/// Answers in one transaction: what it adds to the write-ahead log stays small.
const BATCH: usize = 32;
/// A site of 256 KiB, with a chain of ten certificates for each key type.
const MAX_COPY: usize = 384 << 10;
/// Pages that a batch takes beside its copies: in six indexes, some splits.
const INDEX_PAGES: u64 = 64;
