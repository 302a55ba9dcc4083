//! Source of pairs: named files, or a folder.

use std::fs::{self, ReadDir};
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use super::check::Hosts;
use super::layout::Layout;

/// Files of a chain and its key.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
    pub(super) hosts: Hosts,
}

/// Stream of pairs. A folder's come in the system's order: a million names are
/// never in memory at once.
pub(super) enum Source {
    Pairs(vec::IntoIter<Files>),
    Folder {
        path: PathBuf,
        entries: ReadDir,
        layout: Layout,
        /// True if all names of a certificate become hosts, independent of the
        /// layout.
        all_names: bool,
    },
}

/// Refusal of a file or folder, with its reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) path: PathBuf,
    /// Group of the refusal, for the summary.
    pub(super) group: &'static str,
    pub(super) reason: String,
}

impl Source {
    pub(super) fn pair(files: Files) -> Self {
        Self::Pairs(vec![files].into_iter())
    }

    pub(super) fn folder(path: &Path, layout: Layout, all_names: bool) -> io::Result<Self> {
        let entries = fs::read_dir(path)?;
        Ok(Self::Folder {
            path: path.to_owned(),
            entries,
            layout,
            all_names,
        })
    }
}

impl Iterator for Source {
    type Item = Result<Files, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let (folder, entries, layout, all_names) = match self {
            Self::Pairs(pairs) => return pairs.next().map(Ok),
            Self::Folder {
                path,
                entries,
                layout,
                all_names,
            } => (path, entries, *layout, *all_names),
        };
        loop {
            let path = match entries.next()? {
                Ok(entry) => entry.path(),
                // The system returns no further entry after such an error.
                Err(error) => {
                    let reason = format!("the rest of the folder can't be listed: {error}");
                    let group = "the folder can't be listed";
                    return Some(Err(Refusal::new(folder.as_path(), group, reason)));
                }
            };
            let pair = layout.pair(&path, all_names);
            if pair.is_some() {
                return pair;
            }
        }
    }
}

impl Refusal {
    pub(crate) fn new(
        path: impl Into<PathBuf>,
        group: &'static str,
        reason: impl Into<String>,
    ) -> Self {
        Self {
            path: path.into(),
            group,
            reason: reason.into(),
        }
    }
}
