//! Namespace for clients that ask the system for the addresses of hosts.

use std::path::Path;
use std::process::Command;

use tokio::process;

use crate::compare::tied;

/// Returns a command that runs a script in a folder, on a core. The script sees other mounts than
/// the harness: its `/etc/hosts` is the folder's file `hosts`.
pub(super) fn command(core: usize, folder: &Path, script: &str) -> process::Command {
    let mut command = process::Command::from(tied::command_on(core));
    command
        .args(NAMESPACE)
        .arg(format!("mount --bind hosts /etc/hosts && {script}"))
        .current_dir(folder)
        .kill_on_drop(true);
    command
}

/// Returns whether such a namespace can be made, and whether it has this program.
pub(crate) fn has(program: &str) -> bool {
    let mut namespace = Command::new(NAMESPACE[0]);
    let there = namespace
        .args(&NAMESPACE[1..])
        .arg(format!("command -v {program}"))
        .output();
    there.is_ok_and(|output| output.status.success())
}

// Root needs no namespace of users, which a chroot and some containers forbid.
const NAMESPACE: [&str; 4] = ["unshare", "--mount", "sh", "-c"];
