//! Dropping copies of what changed.

use rusqlite::{Connection, Result};

use super::super::tables;
use super::{Change, Document, Keeper, LogPosition, STEP};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostPattern;
use sekisho_certs::store::Subject;

impl Keeper {
    /// Drops what these changes are about, and notes how far that is. If it
    /// can't be dropped, all copies are.
    pub(in crate::warm) fn apply(&mut self, changes: &[Change], position: LogPosition) {
        self.meta.position = Some(position);
        for change in changes {
            if let Subject::Document { kind, key } = &change.subject {
                let is_it = |one: &Document<SealedBytes>| &one.kind == kind && &one.key == key;
                self.documents
                    .retain(|one| !is_it(one) || one.version >= change.number);
            }
        }
        let Some(connection) = &self.connection else {
            return;
        };
        match apply(connection, changes, position) {
            Ok((gone, touched)) => {
                if touched > 0 {
                    self.seen.clear();
                }
                self.counts.changed(0, gone);
            }
            Err(error) => {
                let file = self.place.path().display();
                tracing::warn!(%file, %error, "copies can't be dropped from disk one by one, all are");
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
            Subject::Document { kind, key } => {
                tables::drop_document(connection, kind, key, change.number)?;
                touched += 1;
            }
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
