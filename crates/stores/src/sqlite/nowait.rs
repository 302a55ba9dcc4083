//! Reads that never wait for the disk.
//!
//! A read of pages that the system has in memory costs less than handing it
//! to another thread, but nobody knows beforehand whether it has them. Linux
//! can be asked to give what it has and nothing else (`preadv2` with
//! `RWF_NOWAIT`). SQLite reads through a table of system calls that it lets
//! its host replace: under [`attempt`], and there only, its `pread` becomes
//! that call. Where a page is missing SQLite reports an I/O error, and the
//! caller reads again on a thread that may wait.
#![expect(unsafe_code, reason = "SQLite's table of system calls is C")]

use std::cell::Cell;
use std::ffi::{c_int, c_void};
use std::sync::OnceLock;

use rusqlite::ffi;

/// Outcome of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Attempt<T> {
    /// Nothing was missing: this is what the work gave.
    Done(T),
    /// Something was not in memory.
    WouldWait,
    /// The system or file system has no such reads; don't try again.
    Unsupported,
}

/// Makes attempts possible, where they can be; before the first connection, since SQLite
/// reads the table without a lock.
pub(crate) fn prepare() {
    INSTALLED.get_or_init(install);
}

/// Runs `work` with reads that take only what is in memory. It must not write.
pub(super) fn attempt<T>(work: impl FnOnce() -> T) -> Attempt<T> {
    if !INSTALLED.get().is_some_and(|installed| *installed) {
        return Attempt::Unsupported;
    }
    MODE.set(ReadMode::NoWait);
    let _armed = Armed;
    let given = work();
    match MODE.get() {
        ReadMode::Missed => Attempt::WouldWait,
        ReadMode::Refused => Attempt::Unsupported,
        ReadMode::Waiting | ReadMode::NoWait => Attempt::Done(given),
    }
}

/// How this thread reads now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ReadMode {
    Waiting,
    NoWait,
    Missed,
    Refused,
}

/// Ends [`ReadMode::NoWait`] when it is dropped, also through a panic.
struct Armed;

impl Drop for Armed {
    fn drop(&mut self) {
        MODE.set(ReadMode::Waiting);
    }
}

thread_local! {
    static MODE: Cell<ReadMode> = const { Cell::new(ReadMode::Waiting) };
}

static INSTALLED: OnceLock<bool> = OnceLock::new();

/// Puts [`pread`] into the table of the default file system layer.
fn install() -> bool {
    // Elsewhere `off_t` is not the type that SQLite calls `pread` with.
    if !cfg!(all(target_os = "linux", target_pointer_width = "64")) {
        return false;
    }
    // SAFETY: no connection is open yet, so nobody reads the table; a null
    // name asks for the default VFS, which lives as long as the process; `xSetSystemCall` copies the pointer of a function that does too
    // and has the type of the call that it replaces.
    unsafe {
        let vfs = ffi::sqlite3_vfs_find(std::ptr::null());
        let Some(set) = vfs.as_ref().and_then(|vfs| vfs.xSetSystemCall) else {
            return false;
        };
        let call: unsafe extern "C" fn(c_int, *mut c_void, usize, libc::off_t) -> isize = pread;
        let call = std::mem::transmute::<
            unsafe extern "C" fn(c_int, *mut c_void, usize, libc::off_t) -> isize,
            unsafe extern "C" fn(),
        >(call);
        set(vfs, c"pread".as_ptr(), Some(call)) == ffi::SQLITE_OK
    }
}

/// The `pread` of all connections: the usual one, unless this thread is armed.
///
/// # Safety
/// As `pread(2)`: `buffer` must be writable for `count` bytes.
unsafe extern "C" fn pread(
    file: c_int,
    buffer: *mut c_void,
    count: usize,
    offset: libc::off_t,
) -> isize {
    if MODE.get() == ReadMode::Waiting {
        // SAFETY: handed on as it came.
        return unsafe { libc::pread(file, buffer, count, offset) };
    }
    let part = libc::iovec {
        iov_base: buffer,
        iov_len: count,
    };
    // SAFETY: one vector over the caller's buffer.
    let got = unsafe { libc::preadv2(file, &raw const part, 1, offset, libc::RWF_NOWAIT) };
    if got > 0 {
        return got;
    }
    // Linux 5.9 and 5.10 give 0 for what is not in memory, like for the end of
    // the file (readv(2), BUGS); to SQLite that is a page of zeros.
    let error = match got {
        0 => Some(libc::EAGAIN),
        _ => std::io::Error::last_os_error().raw_os_error(),
    };
    match error {
        Some(libc::EINTR) => return got,
        Some(libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS) => MODE.set(ReadMode::Refused),
        _ => MODE.set(ReadMode::Missed),
    }
    // SQLite tries again for ever if it finds EINTR there.
    // SAFETY: the thread's own errno.
    unsafe { *libc::__errno_location() = libc::EAGAIN };
    -1
}
