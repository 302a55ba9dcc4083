//! Descriptors that the process was started with.

#![expect(
    unsafe_code,
    reason = "the descriptors are numbers in a folder of the kernel"
)]

use std::fs;
use std::io;

/// Keeps the descriptors from 3 on out of programs that this process starts: a starter may
/// have left some open, such as a file or a socket of its own. Those that the process opens
/// itself are so from the beginning.
///
/// # Errors
/// If the kernel does not list them.
pub(crate) fn keep_out_of_programs() -> io::Result<()> {
    for entry in fs::read_dir("/proc/self/fd")? {
        let number = entry?.file_name().to_string_lossy().parse();
        let inherited = number.ok().filter(|number: &i32| *number > 2);
        if let Some(descriptor) = inherited {
            // SAFETY: the call reads and writes no memory of this process. A number that is
            // closed by now is an error of the call.
            unsafe { libc::fcntl(descriptor, libc::F_SETFD, libc::FD_CLOEXEC) };
        }
    }
    Ok(())
}
