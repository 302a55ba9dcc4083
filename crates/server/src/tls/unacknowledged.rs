//! Asks the kernel for the unacknowledged bytes of a socket.
#![expect(
    unsafe_code,
    reason = "no dependency has this request of ioctl behind a safe function"
)]

use std::os::fd::AsRawFd;

use libc::c_int;
use tokio::net::TcpStream;

/// Returns the bytes that the socket took and the client's kernel has not
/// acknowledged (SIOCOUTQ, tcp(7)); [`u64::MAX`] if the kernel can't tell.
pub(super) fn unacknowledged(socket: &TcpStream) -> u64 {
    let mut bytes: c_int = -1;
    // SAFETY: the descriptor is open for as long as the socket is borrowed,
    // and this request writes one int, to which the pointer leads.
    let failed = unsafe { libc::ioctl(socket.as_raw_fd(), libc::TIOCOUTQ, &raw mut bytes) };
    if failed == 0 {
        u64::try_from(bytes).unwrap_or(u64::MAX)
    } else {
        u64::MAX
    }
}
