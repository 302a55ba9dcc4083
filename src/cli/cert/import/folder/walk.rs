//! Walks through a folder and those in it, to files.

use std::ffi::OsStr;
use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::iter::Take;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use crate::cli::cert::import::source::Refusal;

/// Files below a folder. Links are followed; names that begin with a dot are passed over.
pub(super) struct Walk {
    /// The folder, and those between it and the one that is read.
    open: Vec<Level>,
    /// Most folders between the first one and a file.
    depth: usize,
    /// Most entries that are read of each folder in the first one.
    most: usize,
}

struct Level {
    path: PathBuf,
    /// Device and number of the folder: a link may lead back to it.
    id: (u64, u64),
    entries: Take<ReadDir>,
}

impl Walk {
    pub(super) fn new(folder: &Path, depth: usize) -> io::Result<Self> {
        Ok(Self {
            open: vec![Level::open(folder.to_owned(), usize::MAX)?],
            depth,
            most: usize::MAX,
        })
    }

    /// Walks through some of many entries, so that no folder takes the turns of others.
    pub(super) fn some(folder: &Path, depth: usize, most: usize) -> io::Result<Self> {
        let walk = Self::new(folder, depth)?;
        Ok(Self { most, ..walk })
    }

    /// Goes into a folder, unless that is open already.
    fn enter(&mut self, path: PathBuf) -> Result<(), Refusal> {
        match Level::open(path.clone(), self.most) {
            Ok(level) if self.open.iter().any(|above| above.id == level.id) => Ok(()),
            Ok(level) => {
                self.open.push(level);
                Ok(())
            }
            Err(error) => Err(Refusal::new(path, UNLISTED, error.to_string())),
        }
    }
}

impl Iterator for Walk {
    type Item = Result<PathBuf, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        loop {
            let level = self.open.last_mut()?;
            match level.entries.next() {
                None => drop(self.open.pop()),
                // The system returns no further entry after such an error.
                Some(Err(error)) => {
                    let path = self.open.pop()?.path;
                    let reason = format!("the rest of the folder can't be listed: {error}");
                    return Some(Err(Refusal::new(path, UNLISTED, reason)));
                }
                Some(Ok(entry)) if is_hidden(&entry.file_name()) => {}
                Some(Ok(entry)) if !is_folder(&entry) => return Some(Ok(entry.path())),
                Some(Ok(entry)) if self.open.len() <= self.depth => {
                    if let Err(refusal) = self.enter(entry.path()) {
                        return Some(Err(refusal));
                    }
                }
                Some(Ok(_)) => {}
            }
        }
    }
}

impl Level {
    fn open(path: PathBuf, most: usize) -> io::Result<Self> {
        let entries = fs::read_dir(&path)?.take(most);
        let metadata = fs::metadata(&path)?;
        Ok(Self {
            path,
            id: (metadata.dev(), metadata.ino()),
            entries,
        })
    }
}

fn is_hidden(name: &OsStr) -> bool {
    name.as_bytes().starts_with(b".")
}

/// Returns whether an entry is a folder or a link to one. A link that leads nowhere is a file,
/// whose reader says what it lacks.
fn is_folder(entry: &DirEntry) -> bool {
    match entry.file_type() {
        Ok(kind) if !kind.is_symlink() => kind.is_dir(),
        _ => entry.path().is_dir(),
    }
}

/// Group of folders that can't be read.
const UNLISTED: &str = "the folder can't be listed";
