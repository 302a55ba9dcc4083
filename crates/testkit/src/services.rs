//! Starts real services on their own ports and in their own folders, never the
//! machine's.
//!
//! Services end with the process that started them, even if it is killed. A
//! missing program fails the test, which says what to install.

mod fcgiwrap;
mod knot;
mod pebble;
mod pgbouncer;
mod php;
mod postgres;
mod process;
mod reaper;
mod step_ca;
mod unbound;

use std::fs;
use std::os::unix::fs::chown;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::thread;
use std::time::{Duration, Instant};

pub use fcgiwrap::FcgiWrap;
pub use knot::{Knot, Zone};
pub use pebble::{CaLimits, CaProxy, ChallengeServer, LimitedCa, Pebble, PebbleOptions};
pub use pgbouncer::PgBouncer;
pub use php::{PhpFpm, Pool};
pub use postgres::{Postgres, Signal};
pub use step_ca::StepCa;
pub use unbound::Unbound;

use crate::ports::free_port;
pub use crate::ports::free_ports;

/// User for services that refuse to run as root: the first existing one, if
/// this process is root.
#[derive(Clone, Copy)]
struct Runner(Option<(u32, u32)>);

impl Runner {
    fn named(user: &str) -> Self {
        let id = |which: &str| -> u32 {
            let out = Command::new("id").args([which, user]).output().expect("id");
            let text = String::from_utf8_lossy(&out.stdout).trim().to_owned();
            text.parse()
                .unwrap_or_else(|_| panic!("there is no user {user}; run `make deps`"))
        };
        let own = Command::new("id").arg("-u").output().expect("id");
        match own.stdout.trim_ascii() {
            b"0" => Self(Some((id("-u"), id("-g")))),
            _ => Self(None),
        }
    }

    fn command(self, program: &Path) -> Command {
        let Some((user, group)) = self.0 else {
            return Command::new(program);
        };
        let mut command = Command::new("setpriv");
        command
            .arg(format!("--reuid={user}"))
            .arg(format!("--regid={group}"))
            .arg("--clear-groups")
            .arg(program);
        command
    }

    fn owns(self, path: &Path) {
        if let Some((user, group)) = self.0 {
            chown(path, Some(user), Some(group)).expect("root may give files away");
        }
    }

    /// Makes a folder that other users can reach.
    fn folder(self, prefix: &str) -> PathBuf {
        let folder = tempfile::Builder::new().prefix(prefix).tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        self.owns(&folder);
        folder
    }

    fn write(self, path: &Path, text: &str) {
        fs::write(path, text).expect("a file");
        self.owns(path);
    }
}

/// Finds a program in these folders or in those of `PATH`.
fn program(name: &str, folders: &[PathBuf], package: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let usual = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    folders
        .iter()
        .cloned()
        .chain(std::env::split_paths(&path))
        .chain(usual)
        .map(|folder| folder.join(name))
        .find(|program| program.is_file())
        .unwrap_or_else(|| panic!("there is no {name}; install {package}, or run `make deps`"))
}

/// Runs a command that must succeed; returns its standard output.
fn ran(command: &mut Command) -> String {
    let Output {
        status,
        stdout,
        stderr,
    } = command
        .output()
        .unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let err = String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {status}: {err}");
    String::from_utf8_lossy(&stdout).into_owned()
}

/// Polls until `asked` is true; fails at the deadline with the log.
fn until(what: &str, log: &Path, mut asked: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !asked() {
        assert!(
            begun.elapsed() < Duration::from_secs(60),
            "{what}: not in time; {}",
            fs::read_to_string(log).unwrap_or_default()
        );
        thread::sleep(Duration::from_millis(10));
    }
}
