//! The list `[sites] allow`: folders that sites in host records may serve files
//! from.

use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

/// Folders of `[sites] allow`. A root in a host record must lie in one of them.
/// `[site]` is the operator's own, and the list does not bind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllowedRoots(Arc<[PathBuf]>);

impl AllowedRoots {
    /// Checks a list of absolute folders.
    ///
    /// # Errors
    /// The index of a folder that bounds nothing, and the problem.
    pub fn new(folders: Vec<PathBuf>) -> Result<Self, (usize, String)> {
        for (index, folder) in folders.iter().enumerate() {
            check(folder).map_err(|problem| (index, problem))?;
        }
        Ok(Self(folders.into()))
    }

    /// Returns whether a root lies in one of the folders by its text. Symbolic
    /// links are checked when the root is opened.
    #[must_use]
    pub fn contains(&self, root: &Path) -> bool {
        let climbs = root.components().any(|part| part == Component::ParentDir);
        !climbs && self.0.iter().any(|folder| root.starts_with(folder))
    }

    /// Returns the folders as configured.
    #[must_use]
    pub fn folders(&self) -> &[PathBuf] {
        &self.0
    }
}

/// Returns the folders for web content of the Filesystem Hierarchy Standard
/// (3.0, section 3.17) and of Debian.
impl Default for AllowedRoots {
    fn default() -> Self {
        Self(["/srv", "/var/www"].map(PathBuf::from).into())
    }
}

fn check(folder: &Path) -> Result<(), String> {
    let shown = folder.display();
    if folder.components().any(|part| part == Component::ParentDir) {
        return Err(format!("{shown} holds `..`; write the folder's own path"));
    }
    let bare = folder.parent().is_none();
    if bare || KERNEL.iter().any(|kernel| folder.starts_with(kernel)) {
        return Err(format!(
            "{shown} would let host records serve the system's files; \
             name the folders that hold sites, such as \"/srv\""
        ));
    }
    Ok(())
}

/// Kernel file systems, which expose devices and the environment and memory of
/// processes.
const KERNEL: [&str; 3] = ["/proc", "/sys", "/dev"];

#[cfg(test)]
mod tests {
    use super::*;

    fn allowed(folders: &[&str]) -> Result<AllowedRoots, (usize, String)> {
        AllowedRoots::new(folders.iter().map(PathBuf::from).collect())
    }

    #[test]
    fn a_root_lies_in_a_folder_of_the_list() {
        let list = allowed(&["/srv", "/home/sites/."]).unwrap();
        for root in [
            "/srv",
            "/srv/",
            "/srv/www/{host}",
            "//srv/./a",
            "/home/sites/a",
        ] {
            assert!(list.contains(Path::new(root)), "{root}");
        }
        for root in [
            "/",
            "/etc/sekisho",
            "/srvx",
            "/srv/../etc",
            "/srv/a/../b",
            "/home/sitesx",
            "/{host}/a",
            "srv/a",
        ] {
            assert!(!list.contains(Path::new(root)), "{root}");
        }
        assert!(!allowed(&[]).unwrap().contains(Path::new("/srv")));
    }

    #[test]
    fn a_folder_that_bounds_nothing_is_refused() {
        for (folder, wanted) in [
            ("/", "such as \"/srv\""),
            ("/proc/self", "such as \"/srv\""),
            ("/dev", "such as \"/srv\""),
            ("/srv/..", "`..`"),
        ] {
            let (index, problem) = allowed(&["/srv", folder]).unwrap_err();
            assert_eq!(index, 1);
            assert!(problem.contains(wanted), "{problem}");
        }
    }
}
