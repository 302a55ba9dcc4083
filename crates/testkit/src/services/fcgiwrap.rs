//! fcgiwrap, which runs CGI programs as the user of a tenant.

use std::fs::{Permissions, set_permissions};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixListener;
use std::path::Path;
use std::process::Command;

use rustix::process::geteuid;

use super::process::Process;
use super::program;
use super::reaper::Reaper;

/// Processes of fcgiwrap at one socket, each of which runs one program at a time.
pub struct FcgiWrap {
    _processes: Vec<Process>,
    _reaper: Reaper,
}

impl FcgiWrap {
    /// Starts so many processes as this user and group, if this process is root. No such
    /// user needs to exist. Only the user of this process may connect to the socket.
    ///
    /// # Panics
    /// If fcgiwrap is not installed, or the socket can't be made.
    #[must_use]
    pub fn start(user: u32, socket: &Path, processes: u32) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sekisho-fcgiwrap-")
            .tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        let listener = UnixListener::bind(socket).expect("a socket");
        set_permissions(socket, Permissions::from_mode(0o600)).expect("it is there");
        let listener = OwnedFd::from(listener);
        let program = program("fcgiwrap", &[], "fcgiwrap");
        // Children of one fcgiwrap (`-c`) would outlive it.
        let processes = (0..processes).map(|number| {
            let mut command = Command::new("setpriv");
            if geteuid().is_root() {
                command.args([format!("--reuid={user}"), format!("--regid={user}")]);
                command.arg("--clear-groups");
            }
            command
                .args(["--pdeathsig", "KILL"])
                .arg(&program)
                .arg("-f");
            let listening = listener.try_clone().expect("a handle").into();
            Process::listening(
                &mut command,
                listening,
                &folder,
                &format!("fcgiwrap-{number}"),
            )
        });
        Self {
            _processes: processes.collect(),
            _reaper: reaper,
        }
    }
}
