//! Dropping copies of what changed.

use rusqlite::{Connection, Result};

use super::super::tables;
use super::{STEP, Writer};
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
        let changes = page.changes.as_slice();
        changes.iter().for_each(|change| self.recent.push(change));
        self.drop_changed(changes, reached);
        true
    }

    fn drop_changed(&mut self, changes: &[Change], position: LogPosition) {
        self.meta.position = Some(position);
        let Some(connection) = &self.connection else {
            return;
        };
        match apply(connection, changes, position) {
            Ok((gone, touched)) => {
                if touched > 0 {
                    self.written.clear();
                }
                self.counts.changed(0, gone);
            }
            Err(error) => {
                let file = self.place.path().display();
                tracing::warn!(%file, %error, "copies on disk can't be dropped one by one, all are");
                self.make();
            }
        }
    }
}

/// Says how many copies are gone, and how many rows changed in all.
fn apply(
    connection: &Connection,
    changes: &[Change],
    position: LogPosition,
) -> Result<(usize, usize)> {
    let (mut gone, mut touched) = (0, 0);
    for change in changes {
        match &change.subject {
            Subject::Host(pattern) => {
                let number = tables::drop_pattern(connection, pattern.as_str())?;
                gone += number;
                touched += number + beside(connection, pattern)?;
            }
            Subject::Credential(id) => {
                let drop = || tables::drop_credential(connection, *id, STEP);
                let number = repeated(drop)?;
                gone += number;
                touched += number;
            }
            Subject::Document(_) => {}
        }
    }
    note(connection, position, touched > 0)?;
    Ok((gone, touched))
}

/// What a changed pattern means for others.
fn beside(connection: &Connection, pattern: &HostPattern) -> Result<usize> {
    match (pattern.wildcard_parent(), pattern.parent()) {
        (Some(parent), _) => repeated(|| tables::drop_notes(connection, parent, STEP)),
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

/// The last transaction: what was dropped must not come back with a power
/// cut, and all of the log is synced with its end.
fn note(connection: &Connection, position: LogPosition, durably: bool) -> Result<()> {
    let level = |level| connection.pragma_update(None, "synchronous", level);
    if !durably {
        return tables::set_position(connection, Some(position));
    }
    level("full")?;
    let noted = tables::set_position(connection, Some(position));
    level("normal")?;
    noted
}
