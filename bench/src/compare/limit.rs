//! Limit of a peer's memory: a peer that grows ends alone.

use std::fmt::{self, Display, Formatter};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use anyhow::{Context, Error, Result, ensure};
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::server::Launch;
use sekisho_bench::accounting::{available_memory, peak_address_space};

/// Returns three quarters of the memory that is free.
pub(crate) fn three_quarters() -> Result<u64> {
    let bytes = available_memory()? / 4 * 3;
    ensure!(bytes > 0, "no memory is free");
    Ok(bytes)
}

/// Limits the address space of a process and of those that it starts. A program that did so
/// before the server's own would add to the time of its start.
pub(crate) fn set(pid: u32, bytes: u64) -> Result<()> {
    let process = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let process = process.context("a process has a number")?;
    let limit = Rlimit {
        current: Some(bytes),
        maximum: Some(bytes),
    };
    let set = prlimit(Some(process), Resource::As, limit);
    set.with_context(|| format!("cannot limit process {pid} to {bytes} bytes"))?;
    Ok(())
}

/// Room of a server that starts. Those that find no memory often name another reason, such as
/// a certificate that cannot be read.
#[derive(Debug)]
pub(crate) struct Room {
    limit: Option<u64>,
    /// Most bytes of its address space, and when they were read.
    peak: u64,
    read: Instant,
}

impl Room {
    pub(crate) fn new(limit: Option<u64>) -> Self {
        Self {
            limit,
            peak: 0,
            read: Instant::now(),
        }
    }

    /// Reads how much the process has taken, if the last reading was some time ago.
    pub(crate) fn look(&mut self, pid: u32) {
        if self.limit.is_some() && self.read.elapsed() >= PAUSE {
            // The process may have ended.
            self.peak = peak_address_space(pid).unwrap_or(self.peak);
            self.read = Instant::now();
        }
    }

    pub(crate) fn explain(&self, error: Error) -> Error {
        explain(error, self.limit, self.peak)
    }
}

/// Adds to the error of a server whether it had taken most of its room.
pub(crate) fn explain(error: Error, limit: Option<u64>, peak: u64) -> Error {
    match limit {
        Some(limit) if peak >= limit / 4 * 3 => error.context(Full(peak)),
        _ => error,
    }
}

/// Bytes of a process that had almost as many as it may.
#[derive(Debug)]
struct Full(u64);

impl Display for Full {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        write!(formatter, "it had taken {} MiB", self.0 >> 20)
    }
}

/// Returns how a server under a limit ended; None if it had none, or failed otherwise.
pub(crate) fn ending(error: &Error, launch: &Launch) -> Option<String> {
    let limit = launch.limit?;
    let is_full = error.downcast_ref::<Full>().is_some();
    (is_full || is_lacking(&launch.log)).then(|| {
        let mib = limit >> 20;
        format!("at its memory limit of {mib} MiB for each process: {error:#}")
    })
}

fn is_lacking(log: &Path) -> bool {
    let said = fs::read(log).unwrap_or_default();
    let said = String::from_utf8_lossy(&said).to_lowercase();
    NO_MEMORY.iter().any(|text| said.contains(text))
}

/// Time between two readings: a reading delays the server, which takes less than a hundredth of
/// its room meanwhile.
const PAUSE: Duration = Duration::from_millis(50);
/// Texts of the peers and of their libraries for a lack of memory, in small letters.
const NO_MEMORY: [&str; 5] = [
    // The C library: nginx, Apache, HAProxy.
    "cannot allocate memory",
    // OpenSSL.
    "malloc failure",
    // HAProxy, and Go's runtime for Caddy.
    "out of memory",
    // Apache's library.
    "memory allocation failed",
    // Lua.
    "not enough memory",
];

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use anyhow::anyhow;

    use super::*;
    use sekisho_bench::tls::Version;

    #[test]
    fn a_process_and_its_children_have_the_limit() {
        let mut shell = Command::new("sh");
        // Read once it is set, by a child of the process.
        shell.args(["-c", "read line; sh -c 'ulimit -v'"]);
        let shell = shell.stdin(Stdio::piped()).stdout(Stdio::piped());
        let shell = shell.spawn().unwrap();
        set(shell.id(), 3 << 30).unwrap();
        let said = shell.wait_with_output().unwrap().stdout;
        assert_eq!(String::from_utf8_lossy(&said), "3145728\n");
    }

    #[test]
    fn a_server_that_took_most_of_its_room_ended_for_it() {
        for (limit, peak, is_full) in [
            (Some(4 << 30), 3 << 30, true),
            (Some(4 << 30), 2 << 30, false),
            (None, 3 << 30, false),
        ] {
            let error = explain(anyhow!("ended at start"), limit, peak);
            assert_eq!(error.is::<Full>(), is_full, "{error:#}");
        }
        let error = explain(anyhow!("ended at start"), Some(4 << 30), 3 << 30);
        assert_eq!(
            format!("{error:#}"),
            "it had taken 3072 MiB: ended at start"
        );
    }

    #[test]
    fn only_a_lack_of_memory_under_a_limit_is_a_result() {
        let folder = tempfile::tempdir().unwrap();
        let ending = |said: &str, limit| {
            let launch = Launch {
                program: "nginx".into(),
                arguments: Vec::new(),
                address: "127.0.0.1:443".parse().unwrap(),
                admin: None,
                core: 0,
                log: folder.path().join("log"),
                authority: "ca.crt".into(),
                first_host: String::new(),
                version: Version::Tls13,
                field: None,
                bound: Duration::ZERO,
                limit,
            };
            fs::write(&launch.log, said).unwrap();
            ending(&anyhow!("it ended"), &launch)
        };
        for lack in [
            "[emerg] malloc(16384) failed (12: Cannot allocate memory)",
            "fatal error: runtime: out of memory",
            "[crit] Memory allocation failed, aborting process.",
        ] {
            let ended = ending(lack, Some(3 << 20)).unwrap();
            let wanted = "at its memory limit of 3 MiB for each process: it ended";
            assert_eq!(ended, wanted);
            assert_eq!(ending(lack, None), None);
        }
        assert_eq!(ending("[emerg] no such file", Some(3 << 20)), None);
    }
}
