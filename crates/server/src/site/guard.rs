//! What no site may serve, judged on what was opened.

use std::fmt;
use std::fs::{self, File, Metadata};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use sekisho_certs::HostPattern;
use sekisho_certs::metrics::Writer;

use super::allow::AllowedRoots;
use super::root::Root;
use crate::log_limiter::LogLimits;

/// Keeps sites away from what they may not serve: folders outside `[sites]
/// allow`, and the server's own files. Counts and logs what it refuses.
#[derive(Debug, Default)]
pub struct Guard {
    allowed: AllowedRoots,
    own: OwnFiles,
    outside_allow: AtomicU64,
    own_files: AtomicU64,
    log_limits: LogLimits,
}

/// Why something is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The root of a host record lies outside of `[sites] allow`.
    OutsideAllow,
    /// The file is one of the server's own, or lies beside one.
    OwnFile,
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::OutsideAllow => "the root lies outside of the folders of [sites] allow",
            Self::OwnFile => "it is one of the server's own files, or lies beside one",
        })
    }
}

/// How often something was refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Refused {
    /// Records and requests with a root outside of `[sites] allow`.
    pub outside_allow: u64,
    /// Requests for the server's own files.
    pub own_files: u64,
}

impl Refused {
    /// Writes them as metrics.
    pub(crate) fn write(self, to: &mut Writer<'_>) -> fmt::Result {
        let reasons = [
            ("outside_allow", self.outside_allow),
            ("own_file", self.own_files),
        ];
        let help = "Roots and files that sites were refused to serve, answered with 503";
        to.family("sites_refused", help, "reason", &reasons)
    }
}

impl Guard {
    /// Bounds the roots of host records to `allowed`, and keeps `own` from
    /// every site.
    #[must_use]
    pub fn new(allowed: AllowedRoots, own: OwnFiles) -> Self {
        Self {
            allowed,
            own,
            ..Self::default()
        }
    }

    /// What was refused until now.
    #[must_use]
    pub fn refused(&self) -> Refused {
        Refused {
            outside_allow: self.outside_allow.load(Ordering::Relaxed),
            own_files: self.own_files.load(Ordering::Relaxed),
        }
    }

    /// Judges a root and the folder that it names, if that is there. Blocks.
    pub(crate) fn inspect(&self, root: &Root) -> Option<Refusal> {
        let text = Path::new(&**root.text());
        if !root.is_bound() {
            return None;
        }
        if !self.allowed.contains(text) {
            return Some(Refusal::OutsideAllow);
        }
        // A folder that is not there, or that depends on the name, is judged
        // with each request.
        let real = fs::canonicalize(text).ok()?;
        if !self.lies_in_allowed(root, &real) {
            return Some(Refusal::OutsideAllow);
        }
        self.own.folders.contains(&real).then_some(Refusal::OwnFile)
    }

    /// Tells, by its text alone, whether the root of a host record may be
    /// served.
    pub(crate) fn admits(&self, pattern: &HostPattern, root: &Root) -> bool {
        let admitted = self.allowed.contains(Path::new(&**root.text()));
        if !admitted {
            self.outside_allow.fetch_add(1, Ordering::Relaxed);
            self.log_limits.root_refused(pattern, root.text());
        }
        admitted
    }

    /// Counts and logs what a check refused.
    pub(crate) fn note(&self, refusal: Refusal, host: &str, root: &str, path: &str) {
        let counter = match refusal {
            Refusal::OutsideAllow => &self.outside_allow,
            Refusal::OwnFile => &self.own_files,
        };
        counter.fetch_add(1, Ordering::Relaxed);
        self.log_limits.file_refused(host, root, path, refusal);
    }

    /// Judges the open folder of a root. Symbolic links were followed by then:
    /// swapping one afterwards changes nothing. Blocks.
    ///
    /// # Errors
    /// If the kernel can't tell where the folder lies; it is not to be served.
    pub(crate) fn check_root(&self, root: &Root, folder: &impl AsFd) -> Checked {
        let is_allowed = !root.is_bound() || self.lies_in_allowed(root, &real_path(folder)?);
        Ok(is_allowed.then_some(()).ok_or(Refusal::OutsideAllow))
    }

    /// Judges an open file below a root. Blocks.
    ///
    /// # Errors
    /// As [`Guard::check_root`].
    pub(crate) fn check_file(&self, root: &Root, file: &File, metadata: &Metadata) -> Checked {
        let is_own = self.own.contains(metadata)
            || root.is_bound() && self.own.lie_beside(&real_path(file)?);
        Ok((!is_own).then_some(()).ok_or(Refusal::OwnFile))
    }

    /// Asks the folder of the root's text first: another one may lie on a file
    /// system that hangs.
    fn lies_in_allowed(&self, root: &Root, real: &Path) -> bool {
        let text = Path::new(&**root.text());
        let (near, far): (Vec<_>, Vec<_>) = self
            .allowed
            .folders()
            .iter()
            .partition(|folder| text.starts_with(folder));
        near.into_iter()
            .chain(far)
            .filter_map(|folder| fs::canonicalize(folder).ok())
            .any(|folder| real.starts_with(folder))
    }
}

/// The verdict, or why there is none.
type Checked = io::Result<Result<(), Refusal>>;

/// The server's own files: configuration, keys, tokens, store, disk cache.
#[derive(Clone, Debug, Default)]
pub struct OwnFiles {
    files: Vec<PathBuf>,
    /// The folders that they lie in, without symbolic links. Temporary files
    /// and backups lie there too.
    folders: Vec<PathBuf>,
}

impl OwnFiles {
    /// Takes the files' absolute paths; they need not be there yet.
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

    /// Compares device and inode: a hard link is the same file. The files are
    /// asked each time, since a rotated key is a new file.
    fn contains(&self, file: &Metadata) -> bool {
        let is_it = |own: Metadata| (own.dev(), own.ino()) == (file.dev(), file.ino());
        self.files
            .iter()
            .any(|own| fs::metadata(own).is_ok_and(is_it))
    }

    fn lie_beside(&self, file: &Path) -> bool {
        self.folders
            .iter()
            .any(|folder| file.parent() == Some(folder))
    }
}

fn real_path(open: &impl AsFd) -> io::Result<PathBuf> {
    fs::read_link(format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()))
}
