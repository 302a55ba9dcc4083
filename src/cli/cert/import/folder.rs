//! Reads a folder: walks to the files of pairs, and takes the files beside them.

#[cfg(test)]
mod tests;

use std::fs::{self, DirEntry, ReadDir};
use std::io;
use std::iter::Take;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use sekisho_stores::own_file::beside;

use super::layout::{DEEPEST, Layout, Role};
use super::source::{Half, Names, Pair, Pairs, Refusal};

/// Lists the pairs of a folder in the system's order: a million names are never in memory at
/// once.
pub(super) fn pairs(folder: &Path, layout: Layout, depth: usize) -> io::Result<Pairs> {
    let files = Files::below(folder, depth, usize::MAX)?;
    Ok(Box::new(files.filter_map(move |found| match found {
        Err(refusal) if layout.part(&refusal.place).is_none() => Some(Err(refusal)),
        // The reader of a half says what it lacks.
        Ok(path) | Err(Refusal { place: path, .. }) => pair(&path, layout),
    })))
}

/// Lists some files of a folder, by which a layout is recognised.
pub(super) fn some_files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let files = Files::below(folder, DEEPEST, LOOKED_AT_OF_EACH)?;
    let path = |found: Result<_, Refusal>| found.unwrap_or_else(|refusal| refusal.place);
    Ok(files.take(LOOKED_AT).map(path).collect())
}

/// Returns the pair of a file; none if the file is another's half, or of no pair.
fn pair(path: &Path, layout: Layout) -> Option<Result<Pair, Refusal>> {
    let part = layout.part(path)?;
    match (part.role, part.key) {
        (Role::Chain, None) => Some(Ok(bundle(path, part.names))),
        (Role::Chain, Some(key)) => {
            let (chain, key) = (Half::File(part.chain), Half::File(key));
            Some(Ok(Pair::new(part.names, chain, Some(key))))
        }
        (Role::Key, _) => {
            let is_lost = layout.refuses_lonely_keys() && !part.chain.exists();
            is_lost.then(|| Err(Refusal::alone(path, &part.chain)))
        }
    }
}

/// Makes the pair of a file with certificates and their key. If that is not in it, HAProxy takes
/// it from `FILE.key`, or from `NAME.key`.
pub(super) fn bundle(path: &Path, names: Names) -> Pair {
    let keys = [beside(path, ".key"), path.with_extension("key")];
    let key = keys.into_iter().find(|key| key.exists());
    Pair::new(names, Half::File(path.to_owned()), key.map(Half::Beside))
}

/// Files below a folder. Links are followed; names that begin with a dot are passed over.
struct Files {
    folder: PathBuf,
    /// The folder, and those between it and the one that is read.
    open: Vec<Take<ReadDir>>,
    /// Most folders between the first one and a file.
    depth: usize,
    /// Most entries that are read of each folder, of which none then takes the turns of others.
    most: usize,
}

impl Files {
    fn below(folder: &Path, depth: usize, most: usize) -> io::Result<Self> {
        Ok(Self {
            folder: folder.to_owned(),
            open: vec![fs::read_dir(folder)?.take(most)],
            depth,
            most,
        })
    }
}

impl Iterator for Files {
    type Item = Result<PathBuf, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let refuse = |path: &Path, error: io::Error| {
            let group = "a folder can't be listed";
            Some(Err(Refusal::new(path, group, error.to_string())))
        };
        loop {
            let next = self.open.last_mut()?.next();
            let entry = match next {
                Some(Ok(entry)) => entry,
                Some(Err(error)) => {
                    // The system returns no further entry after such an error.
                    self.open.pop();
                    return refuse(&self.folder, error);
                }
                None => {
                    self.open.pop();
                    continue;
                }
            };
            let path = entry.path();
            if entry.file_name().as_bytes().starts_with(b".") {
                continue;
            }
            let is_deepest = self.open.len() > self.depth;
            match is_folder(&entry) {
                Err(error) if !is_deepest => return refuse(&path, error),
                Err(_) | Ok(false) => return Some(Ok(path)),
                Ok(true) if is_deepest || leads_up(&entry) => continue,
                Ok(true) => {}
            }
            match fs::read_dir(&path) {
                Ok(entries) => self.open.push(entries.take(self.most)),
                Err(error) => return refuse(&path, error),
            }
        }
    }
}

/// Returns whether an entry is a link to a folder that it lies in.
fn leads_up(entry: &DirEntry) -> bool {
    let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
    let path = entry.path();
    is_link && fs::canonicalize(&path).is_ok_and(|to| path.starts_with(to))
}

/// Returns whether an entry is a folder or a link to one. A link that leads nowhere may be either:
/// what it leads to may lie on a file system that is not mounted.
fn is_folder(entry: &DirEntry) -> io::Result<bool> {
    match entry.file_type()? {
        kind if kind.is_symlink() => Ok(fs::metadata(entry.path())?.is_dir()),
        kind => Ok(kind.is_dir()),
    }
}

/// Files that are looked at.
const LOOKED_AT: usize = 50_000;
/// Entries of each folder that are looked at.
const LOOKED_AT_OF_EACH: usize = 200;
