//! Child processes that end with this one, even if it is killed.

use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};

use anyhow::{Context, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Returns the beginning of a command; a program and its arguments follow. The kernel sends
/// SIGTERM to the program when this process has ended: on SIGKILL to a master, workers of nginx
/// and children of php-fpm go on.
pub(crate) fn command() -> Command {
    let mut command = Command::new(TIE[0]);
    command.args(&TIE[1..]);
    command
}

/// Returns the beginning of a command whose program runs on a core.
pub(crate) fn command_on(core: usize) -> Command {
    let mut command = command();
    command.args(["taskset", "-c", &core.to_string()]);
    command
}

/// Starts a command on a core. The child inherits the core from this thread: `taskset` would add
/// a millisecond to each start-up.
pub(crate) fn spawn_on(core: usize, command: &mut Command) -> Result<Child> {
    let own = sched_getaffinity(None)?;
    let mut there = CpuSet::new();
    there.set(core);
    sched_setaffinity(None, &there).with_context(|| format!("cannot run on core {core}"))?;
    let child = command.spawn();
    sched_setaffinity(None, &own)?;
    child.context("cannot run setpriv, of util-linux")
}

/// Tie of a process that another crate started. Dropping it leaves the process alone.
#[derive(Debug)]
pub(crate) struct Tie(Child);

impl Tie {
    /// Lets a shell kill the process, even a stopped one, once this process has ended: the
    /// shell's input ends then.
    pub(crate) fn new(pid: u32) -> Result<Self> {
        let shell = Command::new("sh")
            .args(["-c", "cat >/dev/null; kill -KILL $0", &pid.to_string()])
            .stdin(Stdio::piped())
            // Ctrl-C ends this process, not the shell before it.
            .process_group(0)
            .spawn();
        Ok(Self(shell.context("cannot run sh")?))
    }
}

impl Drop for Tie {
    fn drop(&mut self) {
        // The process has ended if someone killed it.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Beginning of each command.
pub(crate) const TIE: [&str; 3] = ["setpriv", "--pdeathsig", "TERM"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tied_process_ends_with_its_tie_s_input() {
        let start = || Command::new("sleep").arg("600").spawn().unwrap();
        let mut process = start();
        let mut tie = Tie::new(process.id()).unwrap();
        drop(tie.0.stdin.take());
        assert!(!process.wait().unwrap().success());
        let mut process = start();
        drop(Tie::new(process.id()).unwrap());
        assert!(process.try_wait().unwrap().is_none());
        process.kill().unwrap();
        process.wait().unwrap();
    }

    #[test]
    fn a_child_runs_on_its_core_and_this_thread_goes_on_as_before() {
        let before = sched_getaffinity(None).unwrap();
        let core = (0..CpuSet::MAX_CPU)
            .find(|core| before.is_set(*core))
            .unwrap();
        let mut command = command();
        command.args(["sh", "-c", "taskset -cp $$ | grep -q \": $0$\""]);
        let mut child = spawn_on(core, command.arg(core.to_string())).unwrap();
        assert!(child.wait().unwrap().success());
        assert!(sched_getaffinity(None).unwrap() == before);
    }
}
