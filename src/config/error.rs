//! Errors of the configuration file.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

/// Reason why there is no configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConfigError {
    /// No file was named, and no default file exists.
    NotFound(Vec<PathBuf>),
    /// The file can't be read.
    Read(PathBuf, #[source] io::Error),
    /// The file was not named, and another user may have written it.
    Untrusted(PathBuf, String),
    /// The file has invalid keys or values.
    Invalid {
        /// The file.
        file: PathBuf,
        /// At least one, in the order of their lines.
        problems: Vec<Invalid>,
    },
}

/// Invalid key or value.
#[derive(Debug)]
pub(crate) struct Invalid {
    /// The line, from 1 on; None for a missing key.
    pub(super) line: Option<usize>,
    /// The key as in `[cache] memory`. Empty if the file breaks TOML's grammar.
    pub(super) key: String,
    /// The problem, and what to write.
    pub(super) problem: String,
}

impl ConfigError {
    /// Returns a line for each problem.
    pub(crate) fn lines(&self) -> Vec<String> {
        match self {
            Self::NotFound(tried) => {
                let tried: Vec<_> = tried.iter().map(|file| file.to_string_lossy()).collect();
                let tried = tried.join(" nor ");
                vec![format!(
                    "there is neither {tried}; write one with 'sekisho init', name another \
                     with --config FILE, or try 'sekisho demo'"
                )]
            }
            Self::Read(file, error) => vec![format!("{}: can't be read: {error}", file.display())],
            Self::Untrusted(file, problem) => vec![format!("{}: {problem}", file.display())],
            Self::Invalid { file, problems } => {
                let lines = problems.iter();
                let lines = lines.map(|problem| format!("{}:{problem}", file.display()));
                lines.collect()
            }
        }
    }

    pub(crate) fn read(file: &Path, error: io::Error) -> Self {
        Self::Read(file.to_owned(), error)
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.lines().join("\n"))
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        if !self.key.is_empty() {
            write!(f, " {}:", self.key)?;
        }
        write!(f, " {}", self.problem)
    }
}
