//! How a command ends: its exit code, and what it says when it failed.

use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::process::ExitCode;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use sekisho_certs::printable;

/// What a command gives.
pub(crate) use anyhow::Result;

/// How a command ended that did its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    /// All of it was done.
    Done,
    /// Some of the input was refused, the rest done.
    PartlyRefused,
}

impl From<Ended> for ExitCode {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Done => Self::SUCCESS,
            Ended::PartlyRefused => Self::FAILURE,
        }
    }
}

/// Wrong usage that only shows behind the parser.
#[derive(Debug)]
pub(crate) struct Usage(pub(crate) String);

impl fmt::Display for Usage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Usage {}

/// Nobody reads standard output any more, as in `sekisho host list | head`.
#[derive(Debug)]
pub(crate) struct ReaderGone;

impl fmt::Display for ReaderGone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("nobody reads standard output")
    }
}

impl std::error::Error for ReaderGone {}

/// Says on standard error why a command failed; gives its exit code.
pub(crate) fn report(error: &anyhow::Error) -> ExitCode {
    if error.chain().any(is_reader_gone) {
        return ExitCode::SUCCESS;
    }
    if takes_a_line(io::stderr()) {
        eprintln!("error: {}", printable(&with_causes(error)));
    }
    if error.is::<Usage>() {
        ExitCode::from(WRONG_USAGE)
    } else {
        ExitCode::FAILURE
    }
}

/// Says on standard error what is wrong, but keeps no command from its work.
pub(crate) fn warn(error: &anyhow::Error, hint: &str) {
    eprintln!("warning: {}; {hint}", printable(&with_causes(error)));
}

/// Tells whether a line can be written without waiting for a reader, who may
/// never come: a server that is told to end must end.
fn takes_a_line(to: impl AsFd) -> bool {
    let mut fds = [PollFd::new(&to, PollFlags::OUT)];
    let waited = poll(&mut fds, Some(&ERROR_WAIT));
    // What can't be asked is written to as usual.
    !matches!(waited, Ok(0))
}

/// The error and its causes in one line; some errors tell their cause
/// themselves.
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

/// For a reader that is only slow.
const ERROR_WAIT: Timespec = Timespec {
    tv_sec: 1,
    tv_nsec: 0,
};
/// The exit code that the parser gives.
const WRONG_USAGE: u8 = 2;
