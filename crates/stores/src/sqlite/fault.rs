//! Errors of the file, in the operator's words.

use std::fs;
use std::io;
use std::path::Path;

use rusqlite::ErrorCode;

use super::schema::{self, Header};
use crate::fault::unavailable;
use crate::own_file::folder;
use sekisho_certs::store::StoreError;

/// Explains an error of SQLite, and says what to do.
pub(super) fn explain(path: &Path, error: &rusqlite::Error) -> StoreError {
    let file = path;
    let path = path.display();
    match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => unavailable(format!(
            "{path} is kept locked by another process; see who has it open (fuser {path}) and try again"
        )),
        Some(ErrorCode::NotADatabase) => StoreError::Corrupt(
            format!("{path} is not a store: no SQLite database; name another file, or restore it from a backup").into(),
        ),
        Some(ErrorCode::DatabaseCorrupt) => StoreError::Corrupt(
            format!("{path} is damaged ({error}); restore it from a backup").into(),
        ),
        Some(ErrorCode::ReadOnly) => read_only(file),
        Some(ErrorCode::DiskFull) => unavailable(format!(
            "{path}: the disk is full; nothing was written; free some space and try again"
        )),
        Some(ErrorCode::CannotOpen) => unavailable(format!(
            "{path} can't be opened ({error}); this user must be able to write the file and its folder"
        )),
        Some(_) => unavailable(format!("{path}: {error}; look at the disk, its quota and the system's log")),
        None => StoreError::Corrupt(format!("{path} holds what can't be read: {error}").into()),
    }
}

/// Why a file with this header can't be served, if it can't.
pub(super) fn unusable(path: &Path, header: &Header) -> Option<StoreError> {
    let path = path.display();
    let known = schema::VERSION;
    match header {
        Header::Store { compatible, .. } if *compatible <= known => None,
        Header::Store {
            version,
            compatible,
        } => Some(StoreError::Refused(format!(
            "{path} has schema version {version}, which takes a program of schema version {compatible} or newer, and this one has {known}; use the version of the program that wrote it, or a newer one"
        ).into())),
        Header::Empty => Some(StoreError::Corrupt(format!(
            "{path} is empty, no store: its making broke off; import into it again, or remove it"
        ).into())),
        Header::Foreign => Some(StoreError::Refused(format!(
            "{path} is another program's SQLite database, no store; name another file"
        ).into())),
    }
}

/// The file, or its folder, is not to be had.
pub(super) fn unreachable_file(path: &Path, error: &io::Error) -> StoreError {
    let folder = folder(path);
    let shown = path.display();
    let text = match (error.kind(), fs::metadata(folder)) {
        (_, Err(why)) => format!(
            "{shown}: its folder {} can't be read: {why}",
            folder.display()
        ),
        (_, Ok(there)) if !there.is_dir() => {
            format!("{shown}: {} is no folder", folder.display())
        }
        (io::ErrorKind::NotFound, _) => format!(
            "{shown} is missing; an import or `host set` creates the store, a server does not"
        ),
        _ => format!("{shown} can't be opened: {error}"),
    };
    unavailable(text)
}

/// Makes the error of a file that this user can't write.
pub(super) fn read_only(path: &Path) -> StoreError {
    let path = path.display();
    unavailable(format!(
        "{path} can't be written: this user may not, or the file system is read-only; servers and commands write it (leases, tickets)"
    ))
}
