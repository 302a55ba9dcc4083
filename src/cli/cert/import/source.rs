//! Source of pairs: named files, or a folder.

use std::fs;
use std::io;
use std::path::PathBuf;

use super::check::Hosts;
use super::layout::Layout;

/// Files of a chain and its key.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
    pub(super) hosts: Hosts,
}

/// Stream of pairs.
pub(super) type Pairs = Box<dyn Iterator<Item = Result<Files, Refusal>> + Send>;

/// Refusal of a file or folder, with its reason.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) path: PathBuf,
    /// Group of the refusal, for the summary.
    pub(super) group: &'static str,
    pub(super) reason: String,
}

/// Lists the pairs of a folder in the system's order: a million names are never in memory
/// at once. With `all_names`, all names of a certificate become hosts, whatever the layout.
pub(super) fn folder(path: PathBuf, layout: Layout, all_names: bool) -> io::Result<Pairs> {
    let entries = fs::read_dir(&path)?;
    let pairs = entries.filter_map(move |entry| match entry {
        Ok(entry) => layout.pair(&entry.path(), all_names),
        // The system returns no further entry after such an error.
        Err(error) => {
            let reason = format!("the rest of the folder can't be listed: {error}");
            let group = "the folder can't be listed";
            Some(Err(Refusal::new(path.as_path(), group, reason)))
        }
    });
    Ok(Box::new(pairs))
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
