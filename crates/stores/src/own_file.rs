//! Files that this program makes.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// Makes a file for its owner only.
///
/// # Errors
/// If something lies at the path.
pub fn create(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create_new(true).mode(0o600).open(path)
}

/// Removes a file, unless it is gone already.
///
/// # Errors
/// The system's.
pub fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// Lists the files of an SQLite database (sqlite.org/tempfiles.html). The write-ahead log
/// comes before its file, which alone says what it means.
#[must_use]
pub fn of_database(path: &Path) -> [PathBuf; 4] {
    ["-wal", "-shm", "-journal", ""].map(|suffix| beside(path, suffix))
}

/// Returns the folder of a file.
#[must_use]
pub fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    }
}

/// Returns the path of a file that lies beside this one, under its name with a suffix.
#[must_use]
pub fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}
