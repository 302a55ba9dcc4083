//! A program that changes records, in the convention of lego's provider `exec`:
//! `PROGRAM present|cleanup FQDN VALUE`, without its mode `RAW`.

use std::fmt;
use std::path::PathBuf;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::process::Command;
use tokio::sync::{Mutex, MutexGuard};

use super::error::Fault;
use super::{Action, Presented};
use sekisho_certs::with_all_signals;

/// Program that writes records, one call at a time: programs read, change and write the
/// records of a name, and of two at once one would lose its value. lego runs them
/// one after the other too.
#[derive(Clone, Debug)]
pub struct Exec {
    /// The program.
    pub program: PathBuf,
    /// Environment variables that it does not inherit.
    pub hidden: Vec<String>,
    running: Arc<Mutex<()>>,
}

impl Exec {
    /// Takes a program, without arguments. It must be idempotent: it may be asked to
    /// remove what is not there. It does not inherit the environment variables of
    /// `hidden`: those with secrets of the server.
    #[must_use]
    pub fn new(program: PathBuf, hidden: Vec<String>) -> Self {
        Self {
            program,
            hidden,
            running: Arc::default(),
        }
    }

    /// Waits until no other call of the program is under way.
    pub(super) async fn alone(&self) -> MutexGuard<'_, ()> {
        self.running.lock().await
    }

    /// Runs the program, which is killed if the caller stops waiting. What it
    /// prints is dropped, but for the last line of its standard error if it fails:
    /// a program must not print secrets there.
    pub(super) async fn write(&self, action: Action, presented: &Presented) -> Result<(), Fault> {
        let failed = |why: &dyn fmt::Display| {
            let action = action.as_str();
            Fault::Refused(format!("{self} {action}: {why}"))
        };
        let mut command = Command::new(&self.program);
        command
            .args([action.as_str(), &presented.fqdn, &presented.value])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true);
        for name in &self.hidden {
            command.env_remove(name);
        }
        let spawned = with_all_signals(|| command.spawn());
        let mut child = spawned.map_err(|error| failed(&error))?;
        let stderr = child.stderr.take().expect("it was piped");
        let mut tail = Vec::new();
        let (status, ()) = tokio::join!(child.wait(), read_tail(stderr, &mut tail));
        match status {
            Ok(status) if status.success() => Ok(()),
            Ok(status) => Err(failed(&words(status, &tail))),
            Err(error) => Err(failed(&error)),
        }
    }
}

impl fmt::Display for Exec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "exec {}", self.program.display())
    }
}

/// Reads to the end and keeps the last [`MAX_TAIL`] bytes at least, so that the
/// program never waits for a reader. The deadline covers pipes that a child of
/// the program keeps open.
async fn read_tail(mut from: impl AsyncRead + Unpin, tail: &mut Vec<u8>) {
    let mut buffer = [0; 4096];
    // A pipe that breaks has ended.
    while let Ok(length @ 1..) = from.read(&mut buffer).await {
        let surplus = tail.len().saturating_sub(MAX_TAIL);
        tail.drain(..surplus);
        tail.extend_from_slice(&buffer[..length]);
    }
}

fn words(status: ExitStatus, tail: &[u8]) -> String {
    let text = String::from_utf8_lossy(tail);
    let last = text.lines().map(str::trim).rfind(|line| !line.is_empty());
    let Some(last) = last else {
        return status.to_string();
    };
    let plain = last.chars().filter(|letter| !letter.is_control());
    let plain: String = plain.take(MAX_LINE).collect();
    format!("{status}: {plain}")
}

/// Bytes that hold the last line.
const MAX_TAIL: usize = 4096;
/// Characters of a line of the log that belong to the program.
const MAX_LINE: usize = 200;
