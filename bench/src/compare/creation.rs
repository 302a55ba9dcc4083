//! Times of the system calls by which processes are created and programs run in them, by the
//! kernel's tracepoints: `strace` would stop a child at each of its calls.

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

/// Running `perf`, which notes calls on a core.
pub(crate) struct Trace {
    child: Child,
    file: PathBuf,
}

impl Trace {
    pub(crate) async fn start(core: usize, file: &Path) -> Result<Self> {
        // A file of an earlier run would be taken for that of this one.
        let _ = fs::remove_file(file);
        let events =
            CALLS.map(|call| format!("syscalls:sys_enter_{call},syscalls:sys_exit_{call}"));
        let mut child = Command::from(tied::command())
            .args(["perf", "record", "-q", "-C", &core.to_string(), "-e"])
            .arg(events.join(","))
            .arg("-o")
            .arg(file)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run perf")?;
        let begun = Instant::now();
        while !file.exists() {
            let ended = child.try_wait()?;
            ensure!(
                ended.is_none(),
                "perf finds no tracepoints: is tracefs mounted?"
            );
            ensure!(begun.elapsed() < BOUND, "perf does not begin");
            sleep(POLL).await;
        }
        // The file is there before the events are.
        sleep(SETTLE).await;
        let file = file.to_owned();
        Ok(Self { child, file })
    }

    /// Ends the notes, and returns the medians.
    pub(crate) async fn figures(mut self) -> Result<Vec<(&'static str, f64)>> {
        let pid = self.child.id().and_then(|pid| i32::try_from(pid).ok());
        let pid = pid.and_then(Pid::from_raw);
        kill_process(pid.context("perf has ended")?, Signal::INT)?;
        self.child.wait().await?;
        let mut script = Command::new("perf");
        let script = script
            .args(["script", "--ns", "-F", "tid,time,event,trace", "-i"])
            .arg(&self.file);
        let text = script.kill_on_drop(true).output().await?.stdout;
        fs::remove_file(&self.file)?;
        let [created, executed] = times(&String::from_utf8_lossy(&text));
        ensure!(!created.is_empty(), "perf saw no process that was created");
        Ok(vec![
            (figure::CREATED, median(&created)),
            (figure::EXECUTED, median(&executed)),
        ])
    }
}

/// Returns the times, in microseconds, of calls that created a process in which a program ran,
/// and of those that ran it.
fn times(text: &str) -> [Vec<f64>; 2] {
    let (mut entered, mut created, mut executed) = (BTreeMap::new(), Vec::new(), BTreeMap::new());
    for event in text.lines().filter_map(Event::parse) {
        let Some(result) = event.result else {
            entered.insert(event.thread, event.micros);
            continue;
        };
        // A child returns from a call that its parent entered.
        let Some(begun) = entered.remove(&event.thread) else {
            continue;
        };
        let took = event.micros - begun;
        match event.call {
            "execve" if result == 0 => {
                executed.insert(event.thread, took);
            }
            "execve" => {}
            _ => created.push((result, took)),
        }
    }
    let ran = |(child, _): &(i64, f64)| executed.contains_key(child);
    let created = created.into_iter().filter(ran);
    [
        created.map(|(_, took)| took).collect(),
        executed.values().copied().collect(),
    ]
}

/// Entry to a call, or return from it.
struct Event<'a> {
    thread: i64,
    micros: f64,
    call: &'a str,
    /// Result of a return; None for an entry.
    result: Option<i64>,
}

impl<'a> Event<'a> {
    /// Reads a line of `perf script`.
    fn parse(line: &'a str) -> Option<Self> {
        let (thread, rest) = line.trim().split_once(' ')?;
        let (seconds, rest) = rest.trim().split_once(": ")?;
        let (name, rest) = rest.trim().strip_prefix("syscalls:sys_")?.split_once(':')?;
        let (kind, call) = name.split_once('_')?;
        let result = match kind {
            "exit" => {
                let bits = u64::from_str_radix(rest.trim().strip_prefix("0x")?, 16).ok()?;
                Some(bits.cast_signed())
            }
            _ => None,
        };
        Some(Self {
            thread: thread.parse().ok()?,
            micros: 1e6 * seconds.parse::<f64>().ok()?,
            call,
            result,
        })
    }
}

const CALLS: [&str; 5] = ["clone", "clone3", "fork", "vfork", "execve"];
const BOUND: Duration = Duration::from_secs(10);
const POLL: Duration = Duration::from_millis(5);
const SETTLE: Duration = Duration::from_millis(300);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processes_count_in_which_a_program_ran() {
        let text = "\
 70 10.000100000: syscalls:sys_enter_clone: clone_flags: 0x01200011, newsp: 0x00000000
 81 10.009000000:  syscalls:sys_exit_clone: 0x0
 70 10.010200000:  syscalls:sys_exit_clone: 0x51
 81 10.011000000: syscalls:sys_enter_execve: filename: 0x55, argv: 0x55, envp: 0x55
 81 10.011030000:  syscalls:sys_exit_execve: 0xfffffffffffffffe
 81 10.011100000: syscalls:sys_enter_execve: filename: 0x55, argv: 0x55, envp: 0x55
 81 10.011500000:  syscalls:sys_exit_execve: 0x0
 71 10.020000000: syscalls:sys_enter_vfork:
 82 10.020100000: syscalls:sys_enter_execve: filename: 0x55, argv: 0x55, envp: 0x55
 82 10.020400000:  syscalls:sys_exit_execve: 0x0
 71 10.020500000:  syscalls:sys_exit_vfork: 0x52
 70 10.030000000: syscalls:sys_enter_clone3: uargs: 0x7f, size: 0x58
 70 10.030050000:  syscalls:sys_exit_clone3: 0x5a
 70 10.040000000: syscalls:sys_enter_clone: clone_flags: 0x01200011, newsp: 0x00000000
 70 10.040010000:  syscalls:sys_exit_clone: 0xfffffffffffffff5
";
        let rounded = |times: &[f64]| times.iter().map(|time| time.round()).collect::<Vec<_>>();
        let [created, executed] = times(text);
        assert_eq!(rounded(&created), [10_100.0, 500.0]);
        assert_eq!(rounded(&executed), [400.0, 300.0]);
    }
}
