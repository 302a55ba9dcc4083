//! Sockets that the service manager opened (sd_listen_fds(3)).

#![expect(unsafe_code, reason = "the descriptors are numbers in the environment")]

use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Takes the sockets. Called once, before the process opens anything.
///
/// # Errors
/// If the environment names descriptors that are not open.
pub(crate) fn activated() -> io::Result<Vec<OwnedFd>> {
    let descriptors = sd_notify::listen_fds()?;
    // SAFETY: `LISTEN_PID` names this process, so that the descriptors are open and belong
    // to nothing else: this is called once.
    Ok(descriptors
        .map(|descriptor| unsafe { OwnedFd::from_raw_fd(descriptor) })
        .collect())
}
