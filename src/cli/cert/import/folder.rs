//! Reads a folder: walks to the files of pairs, and takes the files beside them.

#[cfg(test)]
mod tests;
mod walk;

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::check::read;
use super::layout::{KeyFile, Layout, Part, Role, documents};
use super::source::{Half, Key, Names, Pair, Pairs, Refusal};
use walk::Walk;

/// Folder of a source.
pub(super) struct Folder {
    /// As the operator wrote it.
    pub(super) shown: PathBuf,
    /// Without links. Its end may be a part of the layout, if a source is one pair's folder.
    real: PathBuf,
}

impl Folder {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        Ok(Self {
            shown: path.to_owned(),
            real: fs::canonicalize(path)?,
        })
    }

    /// Lists the pairs in the system's order: a million names are never in memory at once.
    pub(super) fn pairs(self, layout: Layout) -> io::Result<Pairs> {
        let walk = Walk::new(&self.shown, layout.depth())?;
        Ok(Box::new(walk.filter_map(move |found| match found {
            Ok(path) => self.pair(&path, layout),
            Err(refusal) => Some(Err(refusal)),
        })))
    }

    /// Counts the pairs, for a progress bar.
    pub(super) fn count(&self, layout: Layout) -> io::Result<u64> {
        let files = Walk::new(&self.shown, layout.depth())?.filter_map(Result::ok);
        let is_pair = |path: &PathBuf| match layout.part(&self.seen(path)) {
            Some(part) => part.role == Role::Chain,
            None => layout.document(path).is_some(),
        };
        Ok(files.filter(is_pair).count() as u64)
    }

    /// Lists some files, by which a layout is recognised, with their paths without links.
    pub(super) fn some_files(&self) -> io::Result<Vec<PathBuf>> {
        let walk = Walk::some(&self.shown, DEEPEST, LOOKED_AT_OF_EACH)?;
        let files = walk.take(LOOKED_AT).filter_map(Result::ok);
        Ok(files.map(|path| self.seen(&path)).collect())
    }

    /// Returns the folder of a flat layout: this one, or the only one in it that has pairs.
    pub(super) fn narrowed(self, folders: &BTreeSet<&Path>) -> Option<Self> {
        if folders.contains(self.real.as_path()) {
            return Some(self);
        }
        let real = folders.first().filter(|_| folders.len() == 1)?;
        let below = real.strip_prefix(&self.real).ok()?;
        Some(Self {
            shown: self.shown.join(below),
            real: real.to_path_buf(),
        })
    }

    /// Returns the pair of a file; none if the file is another's half, or of no pair.
    fn pair(&self, path: &Path, layout: Layout) -> Option<Result<Pair, Refusal>> {
        if let Some(host) = layout.document(path) {
            let read = read(path);
            return Some(read.and_then(|read| documents::pair(path.to_owned(), &host, &read)));
        }
        let part = layout.part(&self.seen(path))?;
        match part.role {
            Role::Chain => Some(Ok(assembled(path, part))),
            Role::Key if layout.refuses_lonely_keys() => {
                let is_alone = !path.with_file_name(&part.chain).exists();
                let chain = part.chain.to_string_lossy();
                is_alone.then(|| Err(Refusal::alone(path, &chain)))
            }
            Role::Key | Role::Issuers => None,
        }
    }

    /// Returns the path of a file below this folder without the links above it.
    fn seen(&self, path: &Path) -> PathBuf {
        match path.strip_prefix(&self.shown) {
            Ok(below) => self.real.join(below),
            Err(_) => path.to_owned(),
        }
    }
}

/// Makes the pair of a file with certificates and their key.
pub(super) fn bundle(path: &Path, names: Names) -> Pair {
    match Layout::Haproxy.part(path) {
        Some(part) => assembled(path, Part { names, ..part }),
        None => Pair {
            names,
            chain: Half::File(path.to_owned()),
            key: Key::InChain,
            issuers: None,
        },
    }
}

/// Makes the pair of a chain's file and of those beside it.
fn assembled(path: &Path, part: Part) -> Pair {
    let beside = |name: &OsString| path.with_file_name(name);
    let there = |path: &PathBuf| path.exists();
    let key = match &part.key {
        KeyFile::Chain => Key::InChain,
        KeyFile::Apart(name) => Key::Apart(Half::File(beside(name))),
        KeyFile::ChainOr(names) => match names.iter().map(beside).find(there) {
            Some(found) => Key::InChainOr(Half::File(found)),
            None => Key::InChain,
        },
    };
    let issuers = part.issuers.as_ref().map(beside).filter(there);
    Pair {
        names: part.names,
        chain: Half::File(path.to_owned()),
        key,
        issuers: issuers.map(Half::File),
    }
}

/// Files that are looked at.
const LOOKED_AT: usize = 10_000;
/// Entries that are looked at of each folder in the source.
const LOOKED_AT_OF_EACH: usize = 200;
/// Folders between the source and the files that are looked at.
const DEEPEST: usize = 4;
