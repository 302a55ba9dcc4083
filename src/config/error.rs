//! Errors of the configuration file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why there is no configuration.
#[derive(Debug)]
pub(crate) enum ConfigError {
    /// No file was named, and no default file exists.
    NotFound(Vec<PathBuf>),
    /// The file can't be read.
    Read(PathBuf, io::Error),
    /// The file was not named, and another user may have written it.
    Untrusted(PathBuf, String),
    /// The file has an invalid key or value.
    Invalid {
        /// The file.
        file: PathBuf,
        /// The line, from 1 on; None for a missing key.
        line: Option<usize>,
        /// The key as in `[cache] memory`. Empty if the file breaks TOML's
        /// grammar.
        key: String,
        /// The problem, and what to write.
        problem: String,
    },
}

impl ConfigError {
    pub(crate) fn read(file: &Path, error: io::Error) -> Self {
        Self::Read(file.to_owned(), error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound(tried) => {
                let tried: Vec<_> = tried.iter().map(|file| file.to_string_lossy()).collect();
                let tried = tried.join(" nor ");
                write!(
                    f,
                    "there is neither {tried}; write one with 'sekisho init', name another \
                     with --config FILE, or try 'sekisho demo'"
                )
            }
            Self::Read(file, error) => write!(f, "{}: can't be read: {error}", file.display()),
            Self::Untrusted(file, problem) => write!(f, "{}: {problem}", file.display()),
            Self::Invalid {
                file,
                line,
                key,
                problem,
            } => {
                write!(f, "{}:", file.display())?;
                if let Some(line) = line {
                    write!(f, "{line}:")?;
                }
                if !key.is_empty() {
                    write!(f, " {key}:")?;
                }
                write!(f, " {problem}")
            }
        }
    }
}

impl std::error::Error for ConfigError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Read(_, error) => Some(error),
            Self::NotFound(_) | Self::Untrusted(..) | Self::Invalid { .. } => None,
        }
    }
}
