//! Tells a mount point without its file system from a folder without the host.
//!
//! An unmounted mount point is a folder, mostly an empty one, in which every host
//! looks absent.

use std::fmt::Display;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::fault;
use sekisho_certs::host::HostPattern;
use sekisho_certs::lock;
use sekisho_certs::store::{Result, StoreError};

/// The folders above all hosts.
#[derive(Debug)]
pub(super) struct Folders {
    paths: Vec<PathBuf>,
    known: Mutex<Option<Known>>,
}

/// The folders that were used last.
#[derive(Debug)]
struct Known {
    folders: Identities,
    /// The host that was found there last.
    host: Option<HostPattern>,
}

/// Device and inode of each folder.
pub(super) type Identities = Vec<(u64, u64)>;

impl Folders {
    pub(super) fn new(paths: Vec<PathBuf>) -> Self {
        Self {
            paths,
            known: Mutex::new(None),
        }
    }

    /// Reads which folders lie at the paths.
    pub(super) fn identify(&self) -> Result<Identities> {
        let identity = |path: &PathBuf| match path.metadata() {
            Ok(there) if there.is_dir() => Ok((there.dev(), there.ino())),
            Ok(_) => Err(unavailable(path, "is no folder")),
            Err(error) => Err(unavailable(path, &error)),
        };
        self.paths.iter().map(identity).collect()
    }

    /// Remembers the folders in which a host was found.
    pub(super) fn found(&self, folders: Identities, host: HostPattern) {
        *lock(&self.known) = Some(Known {
            folders,
            host: Some(host),
        });
    }

    /// Fails unless an absence in these folders can be believed: they still lie
    /// at the paths, hold something, and are those of before. Others are taken
    /// for a newer copy if the host that was found last lies there as well.
    pub(super) fn check(
        &self,
        folders: Identities,
        is_there: impl FnOnce(&HostPattern) -> bool,
    ) -> Result<()> {
        if let Some(at) = differs(&folders, &self.identify()?) {
            return Err(unavailable(&self.paths[at], OTHER));
        }
        for path in &self.paths {
            if is_empty(path).map_err(|error| unavailable(path, &error))? {
                return Err(unavailable(path, EMPTY));
            }
        }
        let mut known = lock(&self.known);
        let Some(before) = known.as_mut() else {
            *known = Some(Known {
                folders,
                host: None,
            });
            return Ok(());
        };
        let Some(at) = differs(&folders, &before.folders) else {
            return Ok(());
        };
        if before.host.as_ref().is_some_and(is_there) {
            before.folders = folders;
            return Ok(());
        }
        Err(unavailable(&self.paths[at], OTHER))
    }
}

/// Gives the first place at which the folders differ.
fn differs(some: &Identities, others: &Identities) -> Option<usize> {
    let mut pairs = some.iter().zip(others);
    pairs.position(|(one, other)| one != other)
}

fn is_empty(folder: &Path) -> io::Result<bool> {
    Ok(fs::read_dir(folder)?.next().transpose()?.is_none())
}

fn unavailable(path: &Path, what: impl Display) -> StoreError {
    fault::unavailable(format!("{}: {what}", path.display()))
}

const EMPTY: &str = "the folder is empty: is its file system mounted?";
const OTHER: &str = "this is another folder than before: is its file system mounted? \
     If it was replaced on purpose, it is used as soon as a host is found in it";
