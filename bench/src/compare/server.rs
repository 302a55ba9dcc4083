//! Server as a child process. Dropping it ends the process.

use std::env;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::limit::{self, Room};
use super::tied;
use sekisho_bench::accounting::{CpuTime, Memory, address_space, group, tree};
use sekisho_bench::load::client::Client;
use sekisho_bench::metrics::Metrics;
use sekisho_bench::tls::{Group, Offer, Trust, Version};

#[derive(Debug)]
pub(crate) struct Server {
    child: Child,
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    /// Time from before the fork to the first answered request.
    pub(crate) start_up: Duration,
}

/// Command of a server, and how to tell that it serves.
#[derive(Clone, Debug)]
pub(crate) struct Launch {
    pub(crate) program: PathBuf,
    pub(crate) arguments: Vec<String>,
    pub(crate) address: SocketAddr,
    /// Address of the metrics, if the server has any.
    pub(crate) admin: Option<SocketAddr>,
    pub(crate) core: usize,
    /// File for standard output and error.
    pub(crate) log: PathBuf,
    pub(crate) authority: PathBuf,
    pub(crate) first_host: String,
    pub(crate) version: Version,
    /// Field of the request that tells whether the server serves, if it needs one.
    pub(crate) field: Option<&'static str>,
    pub(crate) bound: Duration,
    /// Bytes that each process may have; None for a server without a limit.
    pub(crate) limit: Option<u64>,
}

impl Server {
    pub(crate) async fn start(launch: &Launch) -> Result<Self> {
        let probe = launch.probe()?;
        let log = File::create(&launch.log)
            .with_context(|| format!("cannot write {}", launch.log.display()))?;
        let begin = Instant::now();
        let mut command = tied::command();
        command
            .arg(&launch.program)
            .args(&launch.arguments)
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            // Apache sends SIGTERM to the whole group that it ends in.
            .process_group(0);
        let mut server = Self {
            child: tied::spawn_on(launch.core, &mut command)?,
            address: launch.address,
            admin: launch.admin,
            start_up: Duration::ZERO,
        };
        if let Some(bytes) = launch.limit {
            limit::set(server.pid(), bytes)?;
        }
        server.wait(launch, &probe, begin).await?;
        server.start_up = begin.elapsed();
        Ok(server)
    }

    async fn wait(&mut self, launch: &Launch, probe: &Client, begin: Instant) -> Result<()> {
        let mut buffer = Vec::new();
        let mut room = Room::new(launch.limit);
        loop {
            let visit = probe.visit(&launch.first_host, Some(PAGE), &mut buffer);
            let Err(failure) = visit.await else {
                return Ok(());
            };
            let log = launch.log.display();
            if let Some(status) = self.child.try_wait()? {
                let error = anyhow!("ended at start ({status}); it wrote {log}");
                return Err(room.explain(error));
            }
            room.look(self.child.id());
            if begin.elapsed() > launch.bound {
                let seconds = launch.bound.as_secs();
                let kind = failure.kind();
                bail!("does not serve the page after {seconds} s ({kind}); it wrote {log}");
            }
            // The client's core is idle otherwise, and a timer would round to 1
            // ms.
            thread::sleep(POLL);
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns whether it still runs.
    pub(crate) fn is_alive(&self) -> bool {
        is_alive(self.child.id())
    }

    pub(crate) fn cpu(&self) -> Result<CpuTime> {
        CpuTime::read(self.child.id())
    }

    /// Scrapes the server's metrics.
    pub(crate) async fn metrics(&self) -> Result<Metrics> {
        let admin = self.admin.context("this server has no metrics")?;
        Metrics::read(admin).await
    }

    pub(crate) fn memory(&self) -> Result<Memory> {
        Memory::read(self.child.id())
    }

    /// Returns the bytes of address space of all its processes.
    pub(crate) fn address_space(&self) -> Result<u64> {
        address_space(self.child.id())
    }
}

impl Drop for Server {
    /// Sends SIGTERM, on which an nginx master ends its workers, then SIGKILL
    /// to what is left.
    fn drop(&mut self) {
        terminate(&mut self.child);
    }
}

impl Launch {
    /// Returns a client that verifies certificates and the length of the page.
    pub(crate) fn probe(&self) -> Result<Client> {
        Ok(self.client()?.with_length(PAGE_SIZE))
    }

    /// Returns a client that verifies certificates.
    pub(crate) fn client(&self) -> Result<Client> {
        let offer = Offer {
            version: self.version,
            group: Group::X25519,
            trust: Trust::Authority(self.authority.clone()),
            resume: None,
        };
        let client = Client::new(self.address, &offer, PROBE_DEADLINE)?;
        Ok(match self.field {
            Some(field) => client.with_field(field),
            None => client,
        })
    }

    /// Returns the file of the configuration.
    pub(crate) fn configuration(&self) -> Result<&Path> {
        let file = self.arguments.last().map(Path::new);
        file.context("a server is given its configuration last")
    }

    /// Returns the command.
    pub(crate) fn command(&self) -> String {
        let program = self.program.display();
        let arguments = self.arguments.join(" ");
        let limit = self.limit.map(|bytes| format!("prlimit --as={bytes} "));
        let limit = limit.unwrap_or_default();
        format!("{limit}taskset -c {} {program} {arguments}", self.core)
    }
}

/// Returns a text whose paths are relative to the current folder.
pub(crate) fn relative(text: &str) -> String {
    match env::current_dir() {
        Ok(here) => text.replace(&format!("{}/", here.display()), ""),
        Err(_) => text.to_owned(),
    }
}

/// Returns an address whose port was free a moment ago.
pub(crate) fn free_address() -> Result<SocketAddr> {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    Ok(listener.local_addr()?)
}

/// Sends SIGTERM to a process, waits for its end, and kills what is left of it, of its children
/// and of its group: a master of nginx that starts 24 workers ends before it has all. Waits
/// until all have freed their memory, which takes a core that the next server needs.
pub(crate) fn terminate(child: &mut Child) {
    let family = tree(child.id()).unwrap_or_default();
    signal(Signal::TERM, &[child.id()]);
    let patience = Instant::now() + START_TIMEOUT;
    while Instant::now() < patience {
        if matches!(child.try_wait(), Ok(Some(_)) | Err(_)) {
            break;
        }
        thread::sleep(Duration::from_millis(5));
    }
    let left: Vec<u32> = family.into_iter().filter(|pid| is_alive(*pid)).collect();
    if !left.is_empty() {
        signal(Signal::KILL, &left);
    }
    let _ = kill_process_group(Pid::from_child(child), Signal::KILL);
    let _ = child.wait();
    let patience = Instant::now() + END_TIMEOUT;
    while Instant::now() < patience && group(child.id()).is_ok_and(|left| !left.is_empty()) {
        thread::sleep(Duration::from_millis(5));
    }
}

/// Sends a signal to processes, of which some may have ended.
pub(crate) fn signal(signal: Signal, pids: &[u32]) {
    let pids = pids.iter().filter_map(|pid| i32::try_from(*pid).ok());
    for pid in pids.filter_map(Pid::from_raw) {
        let _ = kill_process(pid, signal);
    }
}

/// Returns whether a process runs. A zombie does not: it has no executable.
fn is_alive(pid: u32) -> bool {
    Path::new(&format!("/proc/{pid}/exe")).read_link().is_ok()
}

/// Page that all measurements request.
pub(crate) const PAGE: &str = "/index.html";
/// Bytes of this page, from whatever server.
pub(crate) const PAGE_SIZE: usize = 612;
/// CGI program.
pub(crate) const PROGRAM: &str = "/cgi-bin/hello";
/// File of 100 MB.
pub(crate) const LARGE_FILE: &str = "/large.bin";
const POLL: Duration = Duration::from_micros(200);
const START_TIMEOUT: Duration = Duration::from_secs(5);
/// Time in which a killed process frees some gigabytes.
const END_TIMEOUT: Duration = Duration::from_secs(60);
const PROBE_DEADLINE: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use std::process::Command;

    use super::*;

    #[test]
    fn no_process_of_a_group_is_left() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 60 & sleep 60"])
            .process_group(0)
            .spawn()
            .unwrap();
        while group(shell.id()).unwrap().len() < 2 {
            thread::sleep(POLL);
        }
        // Its children have no parent then by which they are found.
        signal(Signal::KILL, &[shell.id()]);
        shell.wait().unwrap();
        terminate(&mut shell);
        assert!(group(shell.id()).unwrap().is_empty());
    }
}
