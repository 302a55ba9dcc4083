//! Errors of a script, for the person who wrote it.

use std::fmt;

/// Error of a script that keeps a hook from starting.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Error {
    /// Name of the script.
    pub script: String,
    /// Line; none if the error belongs to no line.
    pub line: Option<u32>,
    /// The problem.
    pub what: String,
    /// Hint at a remedy; empty if `what` says so.
    pub hint: String,
}

/// Writes `handshake.luau:12: what (hint)`.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.script)?;
        if let Some(line) = self.line {
            write!(f, "{line}:")?;
        }
        write!(f, " {}", self.what)?;
        if !self.hint.is_empty() {
            write!(f, " ({})", self.hint)?;
        }
        Ok(())
    }
}
