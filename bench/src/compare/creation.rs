//! Times of the system calls by which a server creates processes and runs programs in them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::time::sleep;

use super::report::median;
use super::rows::figure;
use super::tied;
use sekisho_bench::accounting::tree;

/// Running `strace`, which is attached to a server.
pub(crate) struct Trace {
    child: Child,
    file: PathBuf,
}

impl Trace {
    /// Attaches to all threads of a server and of its descendants.
    pub(crate) async fn start(root: u32, file: &Path) -> Result<Self> {
        let pids = tree(root)?;
        let child = Command::from(tied::command())
            .args([
                "strace",
                "-f",
                "-qq",
                "-T",
                "-e",
                CALLS,
                "-e",
                "signal=none",
            ])
            .arg("-o")
            .arg(file)
            .args(
                pids.iter()
                    .flat_map(|pid| ["-p".to_owned(), pid.to_string()]),
            )
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run strace")?;
        let begun = Instant::now();
        while !pids.iter().all(|pid| is_traced(*pid).unwrap_or_default()) {
            ensure!(begun.elapsed() < BOUND, "strace can't attach to the server");
            sleep(POLL).await;
        }
        let file = file.to_owned();
        Ok(Self { child, file })
    }

    /// Detaches, and returns the medians.
    pub(crate) async fn figures(mut self) -> Result<Vec<(&'static str, f64)>> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw).context("strace has ended")?;
        kill_process(pid, Signal::INT)?;
        self.child.wait().await?;
        let text = fs::read_to_string(&self.file)?;
        fs::remove_file(&self.file)?;
        let [created, executed] = times(&text);
        ensure!(!created.is_empty(), "no process was created");
        Ok(vec![
            (figure::CREATED, median(&created)),
            (figure::EXECUTED, median(&executed)),
        ])
    }
}

/// Returns whether all threads of a process are traced.
fn is_traced(pid: u32) -> Result<bool> {
    for thread in fs::read_dir(format!("/proc/{pid}/task"))? {
        let status = fs::read_to_string(thread?.path().join("status"))?;
        if status.contains("TracerPid:\t0\n") {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Returns the times, in microseconds, of calls that created a process in which a program ran,
/// and of those that ran it.
fn times(text: &str) -> [Vec<f64>; 2] {
    let calls: Vec<Call<'_>> = text.lines().filter_map(Call::parse).collect();
    let ran = calls
        .iter()
        .filter(|call| call.name == "execve" && call.result == 0);
    let programs: BTreeMap<i64, f64> = ran.map(|call| (call.process, call.micros)).collect();
    let created = calls.iter();
    let created =
        created.filter(|call| call.name != "execve" && programs.contains_key(&call.result));
    [
        created.map(|call| call.micros).collect(),
        programs.values().copied().collect(),
    ]
}

/// Call that has ended.
struct Call<'a> {
    process: i64,
    name: &'a str,
    result: i64,
    micros: f64,
}

impl<'a> Call<'a> {
    /// Reads a line of strace; a call that was interrupted by another thread's has a second line.
    fn parse(line: &'a str) -> Option<Self> {
        let (process, call) = line.split_once(' ')?;
        let call = call.trim_start();
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let end = call.find(['(', ' '])?;
        let (rest, seconds) = call.strip_suffix('>')?.rsplit_once(" <")?;
        let (_, result) = rest.rsplit_once(" = ")?;
        Some(Self {
            process: process.parse().ok()?,
            name: &call[..end],
            result: result.parse().ok()?,
            micros: 1e6 * seconds.parse::<f64>().ok()?,
        })
    }
}

const CALLS: &str = "trace=clone,clone3,fork,vfork,execve";
const BOUND: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_count_in_which_a_program_ran() {
        let text = "\
70 clone(child_stack=NULL, flags=CLONE_CHILD_SETTID|SIGCHLD, child_tidptr=0x7f) = 81 <0.010100>
81 execve(\"/srv/cgi-bin/hello\", [\"hello\"], 0x55 /* 20 vars */) = 0 <0.000400>
71 clone3({flags=CLONE_VM|CLONE_VFORK, exit_signal=SIGCHLD}, 88 <unfinished ...>
82 execve(\"/srv/hello\", [\"hello\"], 0x55 /* 20 vars */ <unfinished ...>
82 <... execve resumed>) = 0 <0.000300>
71 <... clone3 resumed>) = 82 <0.000500>
70 clone3({flags=CLONE_VM|CLONE_THREAD, exit_signal=0}, 88) = 90 <0.000050>
70 clone(child_stack=NULL, flags=SIGCHLD) = -1 EAGAIN (Resource temporarily unavailable) <0.000010>
83 execve(\"/srv/gone\", [\"gone\"], 0x55) = -1 ENOENT (No such file or directory) <0.000020>
";
        let [created, executed] = times(text);
        assert_eq!(
            created.iter().map(|time| time.round()).collect::<Vec<_>>(),
            [10_100.0, 500.0]
        );
        assert_eq!(
            executed.iter().map(|time| time.round()).collect::<Vec<_>>(),
            [400.0, 300.0]
        );
    }
}
