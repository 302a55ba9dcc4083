//! Starts programs.
//!
//! std calls `posix_spawn`, which is `clone` with `CLONE_VM | CLONE_VFORK`: the new process
//! shares the server's page table until it executes the program, and only the calling thread
//! stands still. std forks, which copies the page table, for a `uid`, `gid`, `groups`,
//! `chroot` or `pre_exec`, for a path without a slash after `env_clear`, and for `current_dir`
//! as [`super::starts_by_fork`] says. A test reads the system calls.

use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Resource, Rlimit, getrlimit, prlimit};
use sekisho_certs::with_all_signals;
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::signal::unix::Signal;

use super::Job;
use super::group::Group;
use super::running::{Running, Watch};

/// Starts a program in a process group of its own. Blocks until it is executed, on a thread of
/// the runtime. `children` is notified of SIGCHLD.
///
/// std leaves the mask of signals as this thread has it, and gives SIGPIPE, which the server
/// ignores, its default back. Other signals of the server have handlers, which no program
/// inherits; what the server was started with as ignored stays so.
///
/// # Errors
/// The system's.
pub(super) fn spawn(job: Job, children: Signal) -> io::Result<(Running, Watch)> {
    let mut command = Command::new(job.program.file());
    command
        .env_clear()
        .envs(job.environment)
        .current_dir(job.program.folder())
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = with_all_signals(|| command.spawn())?;
    let pid = Pid::from_child(&child);
    let group = Group::new(pid, children);
    let pipes = limit(pid, job.total).and_then(|()| pipes(&mut child));
    match pipes {
        Ok(pipes) => Ok(Running::new(group, pipes, job.complaints, job.total)),
        Err(error) => {
            group.end();
            Err(error)
        }
    }
}

/// Takes the server's ends of a program's pipes: of its standard input, output and error. std
/// opens them with close-on-exec, as all of the server's descriptors are: the program has
/// descriptors 0 to 2 alone.
fn pipes(child: &mut Child) -> io::Result<(Sender, Receiver, Receiver)> {
    let (input, output) = (child.stdin.take(), child.stdout.take());
    Ok((
        Sender::from_owned_fd(input.expect("it was piped").into())?,
        Receiver::from_owned_fd(output.expect("it was piped").into())?,
        Receiver::from_owned_fd(child.stderr.take().expect("it was piped").into())?,
    ))
}

/// Sets the kernel's limits on a program that may already run. A limit before the start would
/// take a fork, or be the server's own. The limits are against mistakes, not attacks, since
/// programs are the operator's: for those some instructions without limits change nothing. What
/// the program starts in that time has the server's limits, and ends with the group.
///
/// RLIMIT_NPROC is left out: it counts the server's own threads.
fn limit(pid: Pid, total: Duration) -> io::Result<()> {
    // Seconds of CPU time of each process. SIGXCPU comes first, then SIGKILL.
    let seconds = total.as_secs().saturating_add(1);
    for (resource, current, maximum) in [
        (Resource::Cpu, seconds, seconds.saturating_add(1)),
        (Resource::Core, 0, 0),
        // The server's own limit is higher than `select` and loops over all numbers bear.
        (Resource::Nofile, FILES, FILES),
    ] {
        // A limit of the server that is lower stays: without privileges none can be raised.
        let own = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let limit = Rlimit {
            current: Some(current.min(own)),
            maximum: Some(maximum.min(own)),
        };
        prlimit(Some(pid), resource, limit)?;
    }
    Ok(())
}

/// Open files of a program's processes, each.
const FILES: u64 = 1024;
