//! Keeping what was read, a batch in a transaction.

use rusqlite::{Connection, Result};

use super::{Kept, STEP, Writer, is_full};
use crate::disk_cache::tables::{self, Copy};
use crate::stored;
use sekisho_certs::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::log::{Begun, Meanwhile, Reading};
use sekisho_certs::store::Found;

impl Writer {
    pub(super) fn keep(&mut self, batch: &[Kept]) {
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
                self.is_logged = false;
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
            let meanwhile = self.meanwhile(kept, found);
            if meanwhile != Meanwhile::Overtaken {
                let shadowed = found.shadowed || meanwhile == Meanwhile::Shadowed;
                self.put(
                    &transaction,
                    &kept.name,
                    found,
                    shadowed,
                    mark.state,
                    &mut done,
                )?;
                marks.push(*mark);
            }
        }
        transaction.commit()?;
        if done.gone > 0 {
            self.written.clear();
        }
        marks.into_iter().for_each(|mark| self.written.put(mark));
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
        state: i64,
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

    /// What happened to an answer since its catalog was asked.
    fn meanwhile(&self, kept: &Kept, found: &Found<SealedBytes>) -> Meanwhile {
        let Some(noted) = kept.noted else {
            return Meanwhile::Nothing;
        };
        let Some(seen) = noted.position else {
            return Meanwhile::Overtaken;
        };
        let is_same_log = self.meta.position.is_some_and(|at| at.log == seen.log);
        if !is_same_log || noted.epoch != self.epoch || noted.epoch != self.seen.note().epoch {
            return Meanwhile::Overtaken;
        }
        let ids: Vec<_> = found.credentials.iter().map(|one| one.id).collect();
        let reading = Reading {
            name: &kept.name,
            pattern: Some(&found.record.pattern),
            credentials: &ids,
        };
        let begun = Begun {
            number: seen.number,
            epoch: self.recent.epoch,
        };
        self.recent.meanwhile(begun, &reading)
    }

    /// Whether it is the file's own bound that it is near to.
    pub(super) fn is_crowded(&mut self) -> bool {
        let free = self.read(|connection| {
            let most = tables::most_pages(connection)?;
            Ok((most.saturating_sub(tables::pages(connection)?), most))
        });
        free.is_some_and(|(free, most)| free < 2 * (most / 32).max(LEAST_FREE))
    }

    /// Drops the oldest copies as long as less than a part of the file is
    /// free; at least that many.
    pub(super) fn make_room(&mut self, least: usize) -> Result<()> {
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
        self.written.clear();
        self.counts.changed(0, gone);
        Ok(())
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

/// Far above a chain of ten certificates with a site.
const LONGEST: usize = 64 << 10;
/// Pages that a batch of usual copies takes, with their indexes.
const LEAST_FREE: u64 = 128;
