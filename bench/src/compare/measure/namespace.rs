//! Namespace for clients that ask the system for the addresses of hosts.

use std::process::Command;

/// Runs a script that sees other mounts than the harness: it may have an `/etc/hosts` of its own.
pub(super) const NAMESPACE: [&str; 5] = ["unshare", "--map-root-user", "--mount", "sh", "-c"];

/// Returns whether such a namespace can be made, and whether it has this program.
pub(crate) fn has(program: &str) -> bool {
    let mut namespace = Command::new(NAMESPACE[0]);
    let there = namespace
        .args(&NAMESPACE[1..])
        .arg(format!("command -v {program}"))
        .output();
    there.is_ok_and(|output| output.status.success())
}
