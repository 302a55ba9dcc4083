//! Which files are to be imported: named one by one, or found in a folder.

use std::fs::{self, ReadDir};
use std::io;
use std::path::{Path, PathBuf};
use std::vec;

use clap::ValueEnum;
use sekisho_certs::HostPattern;

use super::check::Hosts;

/// A chain and its key on disk.
#[derive(Debug)]
pub(super) struct Files {
    pub(super) chain: PathBuf,
    pub(super) key: PathBuf,
    pub(super) hosts: Hosts,
}

/// What stands in a folder of pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Layout {
    /// NAME.crt and NAME.key; the stem is the host, '_.' a wildcard
    Flat,
    /// Folders with fullchain.pem and privkey.pem; the hosts are the
    /// certificate's names
    Certbot,
}

/// A stream of pairs; of a folder, in the order in which the system gives it,
/// so that a million names are never held at once.
pub(super) enum Source {
    Pairs(vec::IntoIter<Files>),
    Folder {
        path: PathBuf,
        entries: ReadDir,
        layout: Layout,
    },
}

/// A file or folder that can't be part of a pair, and why.
#[derive(Debug)]
pub(crate) struct Refusal {
    pub(super) path: PathBuf,
    pub(super) reason: String,
}

impl Source {
    pub(super) fn pair(files: Files) -> Self {
        Self::Pairs(vec![files].into_iter())
    }

    pub(super) fn folder(path: &Path, layout: Layout) -> io::Result<Self> {
        let entries = fs::read_dir(path)?;
        Ok(Self::Folder {
            path: path.to_owned(),
            entries,
            layout,
        })
    }
}

impl Iterator for Source {
    type Item = Result<Files, Refusal>;

    fn next(&mut self) -> Option<Self::Item> {
        let (folder, entries, layout) = match self {
            Self::Pairs(pairs) => return pairs.next().map(Ok),
            Self::Folder {
                path,
                entries,
                layout,
            } => (path, entries, *layout),
        };
        loop {
            let path = match entries.next()? {
                Ok(entry) => entry.path(),
                // The system gives no further entry behind such an error.
                Err(error) => {
                    let reason = format!("the rest of the folder can't be listed: {error}");
                    return Some(Err(Refusal::new(folder.as_path(), reason)));
                }
            };
            let pair = match layout {
                Layout::Flat => flat(&path),
                Layout::Certbot => certbot(&path),
            };
            if pair.is_some() {
                return pair;
            }
        }
    }
}

impl Refusal {
    pub(crate) fn new(path: impl Into<PathBuf>, reason: impl Into<String>) -> Self {
        Self {
            path: path.into(),
            reason: reason.into(),
        }
    }
}

/// How many pairs a folder seems to hold, for a progress bar.
pub(super) fn count(path: &Path, layout: Layout) -> io::Result<u64> {
    let entries = fs::read_dir(path)?.filter_map(Result::ok);
    let counts = |path: &Path| match layout {
        Layout::Flat => has_extension(path, "crt"),
        Layout::Certbot => true,
    };
    let counted = entries.filter(|entry| counts(&entry.path())).count();
    Ok(counted as u64)
}

/// The pair of a `.crt`; a refusal for a `.key` that stands alone; none for
/// anything else.
fn flat(path: &Path) -> Option<Result<Files, Refusal>> {
    if has_extension(path, "key") {
        let chain = path.with_extension("crt");
        let alone = !chain.exists();
        return alone.then(|| Err(Refusal::new(path, format!("{} is missing", shown(&chain)))));
    }
    if !has_extension(path, "crt") {
        return None;
    }
    let pair = match host_of(path) {
        Ok(host) => Ok(Files {
            chain: path.to_owned(),
            key: path.with_extension("key"),
            hosts: Hosts::Named(vec![host]),
        }),
        Err(reason) => Err(Refusal::new(path, reason)),
    };
    Some(pair)
}

/// The host that a file is named after.
fn host_of(path: &Path) -> Result<HostPattern, String> {
    let stem = path.file_stem().and_then(|stem| stem.to_str());
    let stem = stem.ok_or("the file's name is not UTF-8")?;
    let pattern = match stem.strip_prefix("_.") {
        Some(parent) => format!("*.{parent}"),
        None => stem.to_owned(),
    };
    HostPattern::parse(&pattern).map_err(|error| format!("the file's name is no host: {error}"))
}

/// The pair in a folder; none for what is no folder.
fn certbot(path: &Path) -> Option<Result<Files, Refusal>> {
    path.is_dir().then(|| {
        Ok(Files {
            chain: path.join("fullchain.pem"),
            key: path.join("privkey.pem"),
            hosts: Hosts::OfLeaf,
        })
    })
}

fn has_extension(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|found| found == extension)
}

/// The last part of a path; the folder is known.
fn shown(path: &Path) -> String {
    path.file_name()
        .unwrap_or(path.as_os_str())
        .to_string_lossy()
        .into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flat_file_is_named_after_its_host() {
        for (file, host) in [
            ("a.example.crt", "a.example"),
            ("_.a.example.crt", "*.a.example"),
            ("_dmarc.a.example.crt", "_dmarc.a.example"),
            ("bücher.example.crt", "xn--bcher-kva.example"),
        ] {
            let found = host_of(Path::new(file)).map(|host| host.to_string());
            assert_eq!(found.as_deref(), Ok(host));
        }
        for file in ["_..crt", "..crt", "a..b.crt", "127.0.0.1.crt", "a b.crt"] {
            let found = host_of(Path::new(file));
            assert!(found.is_err(), "{file}: {found:?}");
        }
    }
}
