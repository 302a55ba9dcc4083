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
    /// Folders below which every file may be a key or a program, also without symbolic
    /// links.
    keys: Vec<PathBuf>,
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
        Self {
            files,
            folders,
            keys: Vec::new(),
        }
    }

    /// Adds folders with keys, or programs: no site serves what lies below them.
    #[must_use]
    pub fn with_keys(mut self, folders: Vec<PathBuf>) -> Self {
        let real = folders.iter().filter_map(|it| fs::canonicalize(it).ok());
        self.keys.extend(real.collect::<Vec<_>>());
        self.keys.extend(folders);
        self.keys.sort();
        self.keys.dedup();
        self
    }

    /// Returns whether there are folders with keys.
    pub(super) fn has_keys(&self) -> bool {
        !self.keys.is_empty()
    }

    /// Returns whether some of the files lie directly in this folder.
    pub(super) fn are_in(&self, folder: &Path) -> bool {
        self.folders.iter().any(|own| own == folder)
    }

    /// Compares device and inode: a hard link is the same file. Each call reads
    /// the metadata again, since a rotated key is a new file.
    pub(super) fn contains(&self, file: &Metadata) -> bool {
        self.files.iter().any(|own| id_at(own) == Some(id(file)))
    }

    /// Returns whether a folder holds one of the keys' folders, or lies in one, by text.
    pub(super) fn keys_overlap(&self, folder: &Path) -> bool {
        let overlap = |keys: &PathBuf| keys.starts_with(folder) || folder.starts_with(keys);
        self.keys.iter().any(overlap)
    }

    /// Compares device and inode of each folder above a file: one may be reached by
    /// several paths. Each call reads the metadata again, since a deployment may have
    /// put another folder there.
    pub(super) fn keys_hold(&self, file: &Path) -> bool {
        let keys: Vec<_> = self.keys.iter().filter_map(|keys| id_at(keys)).collect();
        let mut above = file.ancestors().filter_map(id_at);
        above.any(|above| keys.contains(&above))
    }

    pub(super) fn lie_beside(&self, file: &Path) -> bool {
        file.parent().is_some_and(|folder| self.are_in(folder))
    }
}

/// Returns device and inode of what a path leads to now.
pub(in crate::site) fn id_at(path: &Path) -> Option<(u64, u64)> {
    fs::metadata(path).ok().as_ref().map(id)
}

/// Returns device and inode of a file.
pub(in crate::site) fn id(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}
