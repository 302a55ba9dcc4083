//! Processes of services whose ports the caller chooses.

use std::fs::{self, File};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// Process of a service; it ends when this is dropped.
pub(super) struct Process(Child);

impl Process {
    /// Starts a command in this folder, with a log and a file of its id there.
    pub(super) fn spawn(command: &mut Command, folder: &Path, name: &str) -> Self {
        Self::listening(command, Stdio::null(), folder, name)
    }

    /// Starts a command as [`Process::spawn`] does, with this standard input, such as a
    /// listening socket.
    pub(super) fn listening(
        command: &mut Command,
        input: Stdio,
        folder: &Path,
        name: &str,
    ) -> Self {
        let log = File::create(folder.join(format!("{name}.log"))).expect("a log");
        let child = command
            .current_dir(folder)
            .stdin(input)
            .stdout(log.try_clone().expect("a handle"))
            .stderr(log)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        write(folder, &format!("{name}.pid"), &child.id().to_string());
        Self(child)
    }

    /// Waits until something listens at this address. None if the process ended first,
    /// since another one took a port.
    pub(super) fn answers(mut self, address: SocketAddr) -> Option<Self> {
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            if self.0.try_wait().expect("it is a child").is_some() {
                return None;
            }
            if TcpStream::connect(address).is_ok() {
                return Some(self);
            }
            thread::sleep(Duration::from_millis(5));
        }
        None
    }

    /// Sends SIGTERM, with which it ends its children, and waits for its end.
    pub(super) fn terminate(mut self) {
        let pid = i32::try_from(self.0.id()).ok().and_then(Pid::from_raw);
        // The process may have ended already.
        let _ = kill_process(pid.expect("ids are positive"), Signal::TERM);
        let begun = Instant::now();
        while begun.elapsed() < END_TIMEOUT && self.0.try_wait().is_ok_and(|ended| ended.is_none())
        {
            thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts something anew with other ports until it runs.
pub(super) fn attempts<T>(what: &str, mut start: impl FnMut() -> Option<T>) -> T {
    let started = (0..MAX_ATTEMPTS).find_map(|_| start());
    started.unwrap_or_else(|| panic!("{what} does not start"))
}

pub(super) fn write(folder: &Path, name: &str, text: &str) {
    fs::write(folder.join(name), text).expect("a file");
}

/// Longer than children are given to end.
const END_TIMEOUT: Duration = Duration::from_secs(5);
const MAX_ATTEMPTS: usize = 5;
/// Far more than a start takes.
const START_TIMEOUT: Duration = Duration::from_secs(20);
