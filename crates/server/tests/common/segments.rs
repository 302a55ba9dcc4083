//! Counts the segments of a connection.
#![expect(
    unsafe_code,
    reason = "no dependency has this option of sockets behind a safe function"
)]

use std::os::fd::AsRawFd;

use tokio::net::TcpStream;

/// Returns the number of TCP segments that the socket has received: `tcpi_segs_in`,
/// at byte 140 of `struct tcp_info` (linux/tcp.h).
pub fn received(socket: &TcpStream) -> u32 {
    let mut info = [0_u32; 64];
    let mut length = libc::socklen_t::try_from(size_of_val(&info)).expect("256 fits");
    // SAFETY: the descriptor is open, and the kernel writes at most `length` bytes.
    let failed = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_INFO,
            info.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    assert!(failed == 0 && length >= 144, "TCP_INFO of {length} bytes");
    info[35]
}
