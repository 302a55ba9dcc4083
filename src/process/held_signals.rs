//! Signals of the process: one thread receives them, and they can be held back.

#![expect(
    unsafe_code,
    reason = "masks of signals, and an exec that keeps one, are libc's"
)]

use std::ffi::CString;
use std::io;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::mpsc::{Sender, channel};
use std::thread::{self, JoinHandle};

/// Thread that alone receives the signals which a server knows. While another thread could
/// receive one, a signal between the last look at them and an exec would be lost.
#[derive(Debug)]
pub(crate) struct SignalThread {
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

impl SignalThread {
    /// Starts the thread. Threads that the caller starts later receive none of these
    /// signals, and programs only if they are started by
    /// [`with_all_signals`](sekisho_certs::with_all_signals).
    ///
    /// # Errors
    /// The system's, without a thread.
    pub(crate) fn start() -> io::Result<Self> {
        let (stop, stopped) = channel();
        mask(libc::SIG_BLOCK);
        let thread = thread::Builder::new()
            .name("signals".into())
            .spawn(move || {
                mask(libc::SIG_UNBLOCK);
                // Fails once the sender is gone: the process ends.
                let _ = stopped.recv();
                mask(libc::SIG_BLOCK);
            })?;
        Ok(Self { stop, thread })
    }

    /// Ends the thread. Signals wait in the kernel until [`release_signals`], also in the
    /// program that this process executes.
    pub(crate) fn hold(self) {
        let _ = self.stop.send(());
        // The thread can't panic.
        let _ = self.thread.join();
    }
}

/// Lets this thread receive the signals that were held back.
pub(crate) fn release_signals() {
    mask(libc::SIG_UNBLOCK);
}

/// Executes the program of this process under another name, with these arguments. Unlike
/// std's, this leaves the disposition of SIGPIPE. Returns only if it fails.
pub(crate) fn execute_self(arguments: &[&str]) -> io::Error {
    let arguments: Vec<_> = arguments
        .iter()
        .map(|text| CString::new(*text).expect("arguments of ours have no NUL"))
        .collect();
    let pointers = arguments.iter().map(|text| text.as_ptr());
    let pointers: Vec<_> = pointers.chain([ptr::null()]).collect();
    // SAFETY: The path ends with NUL, and the list with a null pointer. All texts live until
    // the call returns.
    unsafe { libc::execv(c"/proc/self/exe".as_ptr(), pointers.as_ptr()) };
    io::Error::last_os_error()
}

/// Changes this thread's mask of the signals which a server knows.
fn mask(how: libc::c_int) {
    let mut set = MaybeUninit::uninit();
    // SAFETY: `sigemptyset` makes the set, which the other calls only change and read. The
    // numbers are signals, so that none of them fails.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        for signal in KNOWN {
            libc::sigaddset(set.as_mut_ptr(), signal);
        }
        libc::pthread_sigmask(how, set.as_ptr(), ptr::null_mut());
    }
}

const KNOWN: [libc::c_int; 6] = [
    libc::SIGTERM,
    libc::SIGINT,
    libc::SIGQUIT,
    libc::SIGHUP,
    libc::SIGUSR1,
    libc::SIGUSR2,
];
