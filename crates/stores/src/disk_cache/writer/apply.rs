//! Dropping copies of what changed.

use rusqlite::{Connection, Result};

use super::super::tables;
use super::{MAX_DROPPED, Writer};
use sekisho_certs::host::HostPattern;
use sekisho_certs::store::{Change, ChangePage, LogPosition, Subject};

impl Writer {
    /// Drops what a page is about, and notes how far that is. If it can't be
    /// dropped, all copies are. False if changes before the page are missing.
    pub(in crate::disk_cache) fn apply(&mut self, page: &ChangePage) -> bool {
        let (Some(at), Some(last)) = (self.meta.position, page.changes.last()) else {
            return false;
        };
        if at.log == page.log && last.number <= at.number {
            // A resync was faster.
            return true;
        }
        let Some(reached) = page.continued(at) else {
            return false;
        };
        page.changes.iter().for_each(|one| self.recent.push(one));
        self.meta.position = Some(reached);
        let Some(connection) = &self.connection else {
            return true;
        };
        match apply(connection, &page.changes, reached) {
            Ok(dropped) => {
                if dropped.rows > 0 {
                    self.shared.written.clear();
                }
                self.shared.count_copies(0, dropped.copies);
            }
            Err(error) => {
                let file = self.file.path.display();
                tracing::warn!(%file, %error, "copies on disk can't be dropped one by one, all are");
                self.make();
            }
        }
        true
    }
}

/// Rows that a page changed in the file.
#[derive(Default)]
struct Dropped {
    copies: usize,
    /// Copies, notes, and wildcards that are shadowed now.
    rows: usize,
}

fn apply(connection: &Connection, changes: &[Change], position: LogPosition) -> Result<Dropped> {
    let mut dropped = Dropped::default();
    for change in changes {
        let copies = match &change.subject {
            Subject::Host(pattern) => {
                dropped.rows += beside(connection, pattern)?;
                tables::drop_pattern(connection, pattern.as_str())?
            }
            Subject::Credential(id) => {
                repeated(|| tables::drop_credential(connection, *id, MAX_DROPPED))?
            }
            Subject::Document(_) => 0,
        };
        dropped.copies += copies;
        dropped.rows += copies;
    }
    // The last transaction is synced, and all of the write-ahead log before it:
    // what was dropped must not come back with a power cut.
    let level = |level| connection.pragma_update(None, "synchronous", level);
    if dropped.rows > 0 {
        level("full")?;
    }
    tables::set_position(connection, position)?;
    level("normal")?;
    Ok(dropped)
}

/// Applies a changed pattern to others: notes below a wildcard, and the wildcard
/// above a name.
fn beside(connection: &Connection, pattern: &HostPattern) -> Result<usize> {
    match (pattern.wildcard_parent(), pattern.parent()) {
        (Some(parent), _) => repeated(|| tables::drop_notes(connection, parent, MAX_DROPPED)),
        (None, Some(parent)) => Ok(tables::drop_note(connection, pattern.as_str())?
            + tables::shadow(connection, &format!("*.{parent}"))?),
        (None, None) => Ok(0),
    }
}

fn repeated(drop: impl Fn() -> Result<usize>) -> Result<usize> {
    let mut all = 0;
    loop {
        match drop()? {
            0 => return Ok(all),
            number => all += number,
        }
    }
}
