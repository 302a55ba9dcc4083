//! Programs that this process starts.

#![expect(unsafe_code, reason = "the mask of signals is libc's")]

use std::mem::MaybeUninit;
use std::ptr;

/// Calls `spawn`, which starts a program, while this thread holds no signal back: the program
/// inherits the mask. A server has one thread that receives signals, and all others hold
/// them back; its handlers may run on this one meanwhile.
pub fn with_all_signals<T>(spawn: impl FnOnce() -> T) -> T {
    let (mut none, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: `sigemptyset` makes the set, and the next call only reads it and fills `before`.
    let before = unsafe {
        libc::sigemptyset(none.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, none.as_ptr(), before.as_mut_ptr());
        before.assume_init()
    };
    let spawned = spawn();
    // SAFETY: The mask that this thread had is a set.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut()) };
    spawned
}
