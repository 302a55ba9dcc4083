//! Ends of commands: exit codes and error texts.

use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sekisho_certs::printable;

use crate::config::ConfigError;

/// Result of a command.
pub(crate) use anyhow::Result;

/// End of a command that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All work was done.
    Done,
    /// Some of the input was refused, the rest was done.
    PartlyRefused,
    /// Another process did the work, and ended with this status.
    With(u8),
}

impl Ended {
    /// Returns the end of a command, where `is_whole` says whether all work was done.
    pub(crate) fn of(is_whole: bool) -> Self {
        match is_whole {
            true => Self::Done,
            false => Self::PartlyRefused,
        }
    }
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Done => Self::SUCCESS,
            Ended::PartlyRefused => Self::FAILURE,
            Ended::With(status) => Self::from(status),
        }
    }
}

/// Wrong usage that the parser can't detect.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The operator ended the command, after it told what was done.
#[derive(Debug, thiserror::Error)]
#[error("interrupted")]
pub(crate) struct Interrupted;

/// Standard output was closed by its reader, as in `sekisho host list | head`.
#[derive(Debug, thiserror::Error)]
#[error("nobody reads standard output")]
pub(crate) struct ReaderGone;

/// Writes the error of a command to standard error, each problem of a configuration in a
/// line; returns the exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_reader_gone) {
        return ExitCode::SUCCESS;
    }
    for line in lines(error) {
        if takes_a_line(io::stderr()) {
            eprintln!("error: {}", printable(&line));
        }
    }
    if error.is::<Usage>() {
        ExitCode::from(WRONG_USAGE)
    } else if error.is::<Interrupted>() {
        ExitCode::from(INTERRUPTED)
    } else {
        ExitCode::FAILURE
    }
}

/// Returns the text of an error, each problem of a configuration in a line.
pub(crate) fn text(error: &anyhow::Error) -> String {
    lines(error).join("\n")
}

fn lines(error: &anyhow::Error) -> Vec<String> {
    match error.downcast_ref::<ConfigError>() {
        Some(error) => error.lines(),
        None => vec![with_causes(error)],
    }
}

/// Writes a warning to standard error.
pub(crate) fn warn(error: &anyhow::Error, hint: &str) {
    eprintln!("warning: {}; {hint}", printable(&with_causes(error)));
}

/// Returns whether a line can be written without waiting for a reader. A server
/// that must end can't wait for one.
fn takes_a_line(to: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&to, PollFlags::OUT)];
    let waited = poll(&mut fds, Some(&ERROR_WAIT));
    // If poll fails, the line is written as usual.
    !matches!(waited, Ok(0))
}

/// Joins an error and its causes in one line. A cause that an error's own text
/// includes is not repeated.
fn with_causes(error: &anyhow::Error) -> String {
    let mut text = error.to_string();
    for cause in error.chain().skip(1).map(ToString::to_string) {
        if !text.contains(&cause) {
            text.push_str(": ");
            text.push_str(&cause);
        }
    }
    text
}

fn is_reader_gone(cause: &(dyn std::error::Error + 'static)) -> bool {
    cause
        .downcast_ref::<io::Error>()
        .and_then(io::Error::get_ref)
        .is_some_and(<dyn std::error::Error + Send + Sync>::is::<ReaderGone>)
}

/// Longest wait for a slow reader.
const ERROR_WAIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// Exit code after SIGINT, as shells have it.
const INTERRUPTED: u8 = 130;
/// Exit code of wrong usage, as clap has it.
const WRONG_USAGE: u8 = 2;
