//! Opens files with secrets.

use std::fs::File;
use std::io;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

/// Opens a regular file that only its owner may read. `O_NONBLOCK` keeps a
/// named pipe from blocking the open.
///
/// # Errors
/// Says which mode exposes the file, and what to do.
pub fn open(path: &Path) -> io::Result<File> {
    let file = File::options()
        .read(true)
        .custom_flags(libc::O_NONBLOCK)
        .open(path)?;
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is no regular file"));
    }
    let mode = metadata.mode() & 0o777;
    if mode & 0o077 != 0 {
        let text = format!("others may read it (mode {mode:o}); run chmod 600");
        return Err(io::Error::other(text));
    }
    Ok(file)
}
