//! CPU time and memory of a server, as the kernel accounts them in `/proc`.
//!
//! CPU time is the first number of each thread's `schedstat`: time on a CPU in
//! nanoseconds. `utime` and `stime` in `stat` have steps of 10 ms, but include
//! threads that have ended. They replace `schedstat` if a thread ended between
//! two readings. Neither counts time in which the process waited for a CPU.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// CPU time of a process and its descendants up to a reading.
#[derive(Clone, Debug, Default)]
pub struct CpuTime {
    threads: BTreeMap<(u32, u32), Duration>,
    processes: Duration,
}

impl CpuTime {
    pub fn read(root: u32) -> Result<Self> {
        let mut time = Self::default();
        for pid in tree(root)? {
            match time.add_process(pid) {
                // A program that the server runs may have ended since it was listed.
                Err(_) if pid != root => {}
                added => added?,
            }
        }
        ensure!(!time.threads.is_empty(), "process {root} is gone");
        Ok(time)
    }

    fn add_process(&mut self, pid: u32) -> Result<()> {
        let folder = format!("/proc/{pid}");
        self.processes += parse_stat(&fs::read_to_string(format!("{folder}/stat"))?)?.cpu;
        for thread in numbers_in(Path::new(&folder).join("task").as_path())? {
            // A thread may end after it was listed.
            let Ok(text) = fs::read_to_string(format!("{folder}/task/{thread}/schedstat")) else {
                continue;
            };
            self.threads.insert((pid, thread), parse_schedstat(&text)?);
        }
        Ok(())
    }

    pub fn since(&self, earlier: &Self) -> Duration {
        let mut sum = Duration::ZERO;
        for (thread, time) in &self.threads {
            let before = earlier.threads.get(thread).copied().unwrap_or_default();
            sum += time.saturating_sub(before);
        }
        let ended = earlier
            .threads
            .keys()
            .any(|thread| !self.threads.contains_key(thread));
        if ended {
            return sum.max(self.processes.saturating_sub(earlier.processes));
        }
        sum
    }
}

/// Returns the CPU time of a process, of its descendants, and of those that have ended and
/// were waited for, in steps of 10 ms. It tells the work of a server whose processes take
/// turns; [`CpuTime`] loses a process that has ended.
pub fn cpu_with_ended(root: u32) -> Result<Duration> {
    let mut sum = Duration::ZERO;
    for pid in tree(root)? {
        match fs::read_to_string(format!("/proc/{pid}/stat")) {
            // A process may end after it was listed.
            Err(_) if pid != root => {}
            text => {
                let stat = parse_stat(&text.with_context(|| format!("process {root} is gone"))?)?;
                sum += stat.cpu + stat.ended;
            }
        }
    }
    Ok(sum)
}

/// Returns the CPU time of one process alone, in steps of 10 ms.
pub fn own_cpu(pid: u32) -> Result<Duration> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat"));
    Ok(parse_stat(&text.with_context(|| format!("process {pid} is gone"))?)?.cpu)
}

/// Returns the bytes that processes may still take before the machine swaps.
pub fn available_memory() -> Result<u64> {
    let text = fs::read_to_string("/proc/meminfo").context("cannot read /proc/meminfo")?;
    kib_of(&text, "MemAvailable:")
}

/// Memory of a process and its descendants in bytes.
///
/// A page that several processes share counts once in `pss`, and once per
/// process in `rss`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Memory {
    pub rss: u64,
    pub pss: u64,
}

impl Memory {
    pub fn read(root: u32) -> Result<Self> {
        let mut sum = Self::default();
        for pid in tree(root)? {
            let file = format!("/proc/{pid}/smaps_rollup");
            let memory = match fs::read_to_string(&file) {
                // As above.
                Err(_) if pid != root => continue,
                text => parse_rollup(&text.with_context(|| format!("cannot read {file}"))?)?,
            };
            sum.rss += memory.rss;
            sum.pss += memory.pss;
        }
        Ok(sum)
    }
}

/// Returns the resident bytes of one process. Cheap, in contrast to
/// [`Memory::read`], which walks all pages and delays the process's own page faults
/// meanwhile.
pub fn resident(pid: u32) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    kib_of(&text, "VmRSS:")
}

/// Returns the most bytes that one process has had resident.
pub fn peak_resident(pid: u32) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    kib_of(&text, "VmHWM:")
}

/// Returns the bytes of address space of the process and its descendants, shared pages for
/// each of them.
pub fn address_space(root: u32) -> Result<u64> {
    let mut sum = 0;
    for pid in tree(root)? {
        // A process may end after it was listed.
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/status")) {
            sum += kib_of(&text, "VmSize:")?;
        }
    }
    Ok(sum)
}

/// Returns the most bytes of address space that one process has had.
pub fn peak_address_space(pid: u32) -> Result<u64> {
    let file = format!("/proc/{pid}/status");
    let text = fs::read_to_string(&file).with_context(|| format!("cannot read {file}"))?;
    kib_of(&text, "VmPeak:")
}

/// Returns all threads of the process and of its descendants.
pub fn threads(root: u32) -> Result<BTreeSet<u32>> {
    let mut threads = BTreeSet::new();
    for pid in tree(root)? {
        // A process may end after it was listed.
        threads.extend(
            numbers_in(&Path::new("/proc").join(format!("{pid}/task"))).unwrap_or_default(),
        );
    }
    Ok(threads)
}

/// Returns the process and all its descendants.
pub fn tree(root: u32) -> Result<Vec<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for pid in numbers_in(Path::new("/proc"))? {
        // A process that ends while the list is read is no descendant: those
        // run throughout.
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            let parent = parse_stat(&text)?.parent;
            children.entry(parent).or_default().push(pid);
        }
    }
    let mut found = vec![root];
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        let below = children.remove(pid).unwrap_or_default();
        found.extend(below);
        next += 1;
    }
    Ok(found)
}

/// Returns the processes of a group that have memory: a zombie has none.
pub fn group(id: u32) -> Result<Vec<u32>> {
    let mut found = Vec::new();
    for pid in numbers_in(Path::new("/proc"))? {
        if let Ok(text) = fs::read_to_string(format!("/proc/{pid}/stat")) {
            let stat = parse_stat(&text)?;
            if stat.group == Some(id) && !stat.is_zombie {
                found.push(pid);
            }
        }
    }
    Ok(found)
}

#[derive(Debug, PartialEq)]
struct Stat {
    is_zombie: bool,
    parent: u32,
    /// Process group; none while the kernel removes the process, and writes -1.
    group: Option<u32>,
    cpu: Duration,
    /// CPU time of children that have ended.
    ended: Duration,
}

/// Parses a `stat` line. The name in brackets may hold spaces and brackets,
/// hence the last bracket is the border.
fn parse_stat(text: &str) -> Result<Stat> {
    let plain = text.rsplit_once(')').map(|(_, plain)| plain);
    let fields: Vec<&str> = plain.unwrap_or_default().split_ascii_whitespace().collect();
    ensure!(fields.len() > CSTIME, "cannot read {text:?} as a stat line");
    let sum = |user: usize, system: usize| -> Result<Duration> {
        let ticks = fields[user].parse::<u64>()? + fields[system].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * MS_PER_TICK))
    };
    Ok(Stat {
        is_zombie: fields[STATE] == "Z",
        parent: fields[PARENT].parse()?,
        group: fields[GROUP].parse().ok(),
        cpu: sum(UTIME, STIME)?,
        ended: sum(CUTIME, CSTIME)?,
    })
}

fn parse_schedstat(text: &str) -> Result<Duration> {
    let first = text.split_ascii_whitespace().next().unwrap_or_default();
    let nanos = first
        .parse()
        .with_context(|| format!("cannot read {text:?} as schedstat"))?;
    Ok(Duration::from_nanos(nanos))
}

fn parse_rollup(text: &str) -> Result<Memory> {
    Ok(Memory {
        rss: kib_of(text, "Rss:")?,
        pss: kib_of(text, "Pss:")?,
    })
}

/// Returns the bytes of a field that is written in KiB.
fn kib_of(text: &str, name: &str) -> Result<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name));
    let kib = line
        .and_then(|rest| rest.trim().strip_suffix(" kB"))
        .with_context(|| format!("no {name}"))?;
    Ok(kib.trim().parse::<u64>()? * 1024)
}

fn numbers_in(folder: &Path) -> Result<Vec<u32>> {
    let entries =
        fs::read_dir(folder).with_context(|| format!("cannot list {}", folder.display()))?;
    Ok(entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// Positions of fields after the name's closing bracket.
const STATE: usize = 0;
const PARENT: usize = 1;
const GROUP: usize = 2;
const UTIME: usize = 11;
const STIME: usize = 12;
const CUTIME: usize = 13;
const CSTIME: usize = 14;
/// Linux reports times to user space in units of 10 ms (USER_HZ), independent
/// of its own tick.
const MS_PER_TICK: u64 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stat_lines_are_parsed_after_the_name() {
        let line = "42 (a (b) c) S 7 42 42 0 -1 4194560 100 0 0 0 150 50 80 20 20 0 1 0 9 0 0";
        let stat = parse_stat(line).unwrap();
        assert_eq!((stat.parent, stat.cpu), (7, Duration::from_secs(2)));
        assert_eq!((stat.group, stat.is_zombie), (Some(42), false));
        assert_eq!(stat.ended, Duration::from_secs(1));
        let removed = parse_stat(&line.replace("S 7 42 42", "X 0 -1 -1")).unwrap();
        assert_eq!(removed.group, None);
        assert!(parse_stat("42 (a) S 7").is_err());
    }

    #[test]
    fn rollups_are_parsed() {
        let text = "55-7f ---p 00000000 00:00 0 [rollup]\nRss:     1204 kB\nPss:      300 kB\n";
        let memory = parse_rollup(text).unwrap();
        assert_eq!((memory.rss, memory.pss), (1204 * 1024, 300 * 1024));
        assert!(parse_rollup("Rss: 1 kB").is_err());
    }

    #[test]
    fn time_of_new_and_of_ended_threads_is_counted() {
        let at = |threads: &[(u32, u64)], processes| CpuTime {
            threads: threads
                .iter()
                .map(|&(id, ms)| ((1, id), Duration::from_millis(ms)))
                .collect(),
            processes: Duration::from_millis(processes),
        };
        let before = at(&[(1, 100), (2, 50)], 150);
        let grown = at(&[(1, 110), (2, 50), (3, 5)], 160);
        assert_eq!(grown.since(&before), Duration::from_millis(15));
        let ended = at(&[(1, 110)], 190);
        assert_eq!(ended.since(&before), Duration::from_millis(40));
    }

    #[test]
    fn this_process_can_be_read() {
        let id = std::process::id();
        assert!(tree(id).unwrap().contains(&id));
        assert!(threads(id).unwrap().contains(&id));
        assert!(Memory::read(id).unwrap().rss > 1024 * 1024);
        assert!(resident(id).unwrap() > 1024 * 1024);
        assert!(peak_resident(id).unwrap() >= 1024 * 1024);
        assert!(available_memory().unwrap() > 1024 * 1024);
        assert!(peak_address_space(id).unwrap() >= resident(id).unwrap());
        assert!(own_cpu(id).unwrap() <= cpu_with_ended(id).unwrap());
        CpuTime::read(id).unwrap();
    }
}
