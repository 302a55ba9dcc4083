//! Files of the server itself, which no site may serve.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Files of the server itself: configuration, keys, tokens, store, disk cache.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    files: Vec<PathBuf>,
    /// Folders of the files, without symbolic links. Temporary files and
    /// backups lie there, too.
    folders: Vec<PathBuf>,
}

impl OwnFiles {
    /// Takes the files' absolute paths; they need not exist yet.
    #[must_use]
    pub fn new(files: Vec<PathBuf>) -> Self {
        let folders = files.iter().filter_map(|file| {
            let folder = file.parent()?;
            Some(fs::canonicalize(folder).unwrap_or_else(|_| folder.to_owned()))
        });
        let mut folders: Vec<_> = folders.collect();
        folders.sort();
        folders.dedup();
        Self { files, folders }
    }

    /// Returns whether some of the files lie directly in this folder.
    pub(super) fn are_in(&self, folder: &Path) -> bool {
        self.folders.iter().any(|own| own == folder)
    }

    /// Compares device and inode: a hard link is the same file. Each call reads
    /// the metadata again, since a rotated key is a new file.
    pub(super) fn contains(&self, file: &Metadata) -> bool {
        let is_it = |own: Metadata| (own.dev(), own.ino()) == (file.dev(), file.ino());
        self.files
            .iter()
            .any(|own| fs::metadata(own).is_ok_and(is_it))
    }

    pub(super) fn lie_beside(&self, file: &Path) -> bool {
        self.folders
            .iter()
            .any(|folder| file.parent() == Some(folder))
    }
}
