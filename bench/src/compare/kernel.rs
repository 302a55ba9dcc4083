//! Work of the kernel on the server's core.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail, ensure};
use tokio::process::{Child, Command};

use super::rows::figure;
use super::tied;

/// CPU time of a core, in its kernel's ticks.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct CoreTime {
    user: u64,
    /// System time and interrupts.
    kernel: u64,
    idle: u64,
}

impl CoreTime {
    /// Reads the times of a core. Those of a process would not do: one that ends between two
    /// ticks counts as user time, which most of a program's time is then.
    pub(crate) fn read(core: usize) -> Result<Self> {
        let text = fs::read_to_string("/proc/stat").context("cannot read /proc/stat")?;
        Self::parse(&text, core)
    }

    fn parse(text: &str, core: usize) -> Result<Self> {
        let name = format!("cpu{core} ");
        let line = text.lines().find_map(|line| line.strip_prefix(&name));
        let line = line.with_context(|| format!("no {name}in /proc/stat"))?;
        let fields = line.split_ascii_whitespace().map(str::parse);
        let fields: Vec<u64> = fields.collect::<Result<_, _>>()?;
        let [user, nice, system, idle, iowait, irq, softirq, ..] = fields[..] else {
            bail!("cannot read {line:?} as times of a core");
        };
        Ok(Self {
            user: user + nice,
            kernel: system + irq + softirq,
            idle: idle + iowait,
        })
    }

    /// Returns the percentage of the kernel in all CPU time since, and that of CPU time in all
    /// time.
    pub(crate) fn percentages(self, earlier: Self) -> [f64; 2] {
        let user = (self.user - earlier.user) as f64;
        let kernel = (self.kernel - earlier.kernel) as f64;
        // This one may go back.
        let idle = self.idle.saturating_sub(earlier.idle) as f64;
        let busy = user + kernel;
        [kernel / busy.max(1.0), busy / (busy + idle).max(1.0)].map(|part| 100.0 * part)
    }
}

/// Running `perf`, which samples where the kernel works on a core: by cycles or, on a machine
/// that does not count them, by a clock.
pub(crate) struct Profile {
    child: Child,
    file: PathBuf,
}

impl Profile {
    pub(crate) fn start(core: usize, seconds: u64, file: &Path) -> Result<Self> {
        let child = Command::from(tied::command())
            .args([
                "perf",
                "record",
                "-q",
                "-F",
                "999",
                "-g",
                "--kernel-callchains",
            ])
            .args(["-e", "cycles:k", "-C", &core.to_string(), "-o"])
            .arg(file)
            .args(["--", "sleep", &seconds.to_string()])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("cannot run perf")?;
        let file = file.to_owned();
        Ok(Self { child, file })
    }

    /// Returns percentages of the kernel's time.
    pub(crate) async fn figures(self) -> Result<Vec<(&'static str, f64)>> {
        let ended = self.child.wait_with_output().await?;
        let said = String::from_utf8_lossy(&ended.stderr);
        ensure!(ended.status.success(), "perf said {:?}", said.trim());
        let mut script = Command::new("perf");
        let script = script
            .args(["script", "-F", "ip,sym", "-i"])
            .arg(&self.file);
        let text = script.kill_on_drop(true).output().await?.stdout;
        fs::remove_file(&self.file)?;
        shares(&String::from_utf8_lossy(&text))
    }
}

/// Returns the percentage of samples within each function of [`WORK`]. A sample is the lines up
/// to an empty one, a function on each.
fn shares(text: &str) -> Result<Vec<(&'static str, f64)>> {
    let (mut counts, mut all, mut named) = ([0_u64; WORK.len()], 0_u64, false);
    let lines: Vec<&str> = text.lines().map(str::trim).collect();
    let function = |line: &&str| line.split_ascii_whitespace().nth(1).map(str::to_owned);
    for sample in lines.split(|line| line.is_empty()) {
        let functions: Vec<String> = sample.iter().filter_map(function).collect();
        // A clock samples an idle core as well.
        if functions.is_empty() || functions.iter().any(|function| function == IDLE) {
            continue;
        }
        all += 1;
        named |= functions.iter().any(|function| function != "[unknown]");
        let within = |(_, root): &(&str, &str)| functions.iter().any(|function| function == root);
        if let Some(work) = WORK.iter().position(within) {
            counts[work] += 1;
        }
    }
    ensure!(all > 0, "perf has no samples");
    ensure!(named, "perf finds no names of the kernel's functions");
    let share = |((name, _), count): (&(&'static str, &str), u64)| {
        let percent = 100.0 * count as f64 / all as f64;
        (*name, percent)
    };
    Ok(WORK.iter().zip(counts).map(share).collect())
}

/// Functions below which all work on page tables is. Other files of the kernel call them, so
/// that no compiler makes them part of their callers.
const WORK: [(&str, &str); 3] = [
    (figure::COPIED, "copy_page_range"),
    (figure::DROPPED, "exit_mmap"),
    (figure::FAULTS, "handle_mm_fault"),
];
const IDLE: &str = "cpu_startup_entry";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_core_has_its_own_times() {
        let before = "cpu  9 9 9 9 9 9 9 0 0 0\ncpu0 5 0 5 0 0 0 0 0 0 0\n\
                      cpu1 100 10 50 800 20 1 2 3 0 0\nintr 7\n";
        let after = "cpu1 110 20 110 900 20 3 20 9 0 0\n";
        let before = CoreTime::parse(before, 1).unwrap();
        let after = CoreTime::parse(after, 1).unwrap();
        // 20 for the user, 80 in the kernel, 100 idle.
        assert_eq!(after.percentages(before), [80.0, 50.0]);
        assert_eq!(after.percentages(after), [0.0, 0.0]);
        assert!(CoreTime::parse("cpu10 1 2 3 4 5 6 7\n", 1).is_err());
        assert!(CoreTime::parse("cpu1 1 2 3\n", 1).is_err());
    }

    #[test]
    fn samples_count_by_what_they_are_within() {
        let text = "\tffffffff81 vm_normal_page\n\tffffffff82 copy_page_range\n\
                    \tffffffff83 dup_mmap\n\n\n\
                    \tffffffff81 release_pages\n\tffffffff82 exit_mmap\n\n\
                    \tffffffff81 handle_mm_fault\n\tffffffff82 exc_page_fault\n\n\
                    \tffffffff81 tcp_sendmsg\n\tffffffff82 [unknown]\n\n\
                    \tffffffff81 pv_native_safe_halt\n\tffffffff82 cpu_startup_entry\n\n";
        let shares = shares(text).unwrap().into_iter();
        let shares: Vec<f64> = shares.map(|(_, share)| share).collect();
        assert_eq!(shares, [25.0, 25.0, 25.0]);
    }

    #[test]
    fn no_samples_and_no_names_are_no_figures() {
        let idle = "\tffffffff81 cpu_startup_entry\n\n";
        for text in ["", "\n\n", idle, "\tffffffff81 [unknown]\n\n"] {
            assert!(shares(text).is_err(), "{text:?}");
        }
    }
}
