//! Server of sekisho under test: its processes, one after the other.

use std::cell::{Cell, RefCell};
use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use crate::metrics::Metrics;

pub struct Server {
    binary: PathBuf,
    /// Folder with the configuration and the logs.
    folder: PathBuf,
    process: Cell<u32>,
    address: Cell<Option<SocketAddr>>,
    /// Address of plain HTTP.
    http: Cell<Option<SocketAddr>>,
    admin: Cell<Option<SocketAddr>>,
    child: RefCell<Option<Child>>,
}

impl Server {
    pub fn new(binary: &Path, folder: PathBuf) -> Self {
        Self {
            binary: binary.to_owned(),
            folder,
            process: Cell::new(0),
            address: Cell::new(None),
            http: Cell::new(None),
            admin: Cell::new(None),
            child: RefCell::new(None),
        }
    }

    /// Returns the address and the number of the current process; None during a
    /// restart.
    pub fn serving(&self) -> Option<(SocketAddr, u32)> {
        Some((self.address.get()?, self.process.get()))
    }

    /// Returns the address of plain HTTP.
    pub fn plain(&self) -> Option<SocketAddr> {
        self.http.get()
    }

    /// Starts a process and waits until it serves.
    pub async fn start(&self) -> Result<()> {
        let log = self.log();
        let child = self.spawn(&log)?;
        self.child.replace(Some(child));
        let begun = Instant::now();
        while begun.elapsed() < START_TIMEOUT {
            if let Some(serving) = Serving::read(&log)? {
                self.address.set(Some(serving.https));
                self.http.set(serving.http);
                self.admin.set(serving.admin);
                return Ok(());
            }
            sleep(POLL_INTERVAL).await;
        }
        bail!("a server does not start:\n{}", self.tail());
    }

    /// Returns the id of the process.
    pub fn pid(&self) -> Result<u32> {
        let child = self.child.borrow();
        child.as_ref().and_then(Child::id).context("it runs")
    }

    /// Scrapes its metrics.
    pub async fn metrics(&self) -> Result<Metrics> {
        let admin = self.admin.get();
        Metrics::read(admin.context("this server has no metrics")?).await
    }

    /// Sends SIGTERM. From now on the server counts as ended.
    pub fn tell_to_end(&self) -> Result<()> {
        self.address.set(None);
        let pid = i32::try_from(self.pid()?).ok().and_then(Pid::from_raw);
        Ok(kill_process(pid.context("a number")?, Signal::TERM)?)
    }

    /// Waits until the process has exited with success.
    pub async fn ended(&self) -> Result<()> {
        let child = self.child.take();
        let mut child = child.context("it was started")?;
        let status = timeout(DRAIN_TIMEOUT, child.wait()).await;
        let status = status.context("a server does not end")??;
        ensure!(
            status.success(),
            "a server ended with {status}:\n{}",
            self.tail()
        );
        self.process.set(self.process.get() + 1);
        Ok(())
    }

    /// Returns the last lines of the log.
    pub fn tail(&self) -> String {
        let text = self.log_text();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }

    /// Returns what the process has logged.
    pub fn log_text(&self) -> String {
        fs::read_to_string(self.log()).unwrap_or_default()
    }

    fn log(&self) -> PathBuf {
        self.folder.join(format!("log.{}", self.process.get()))
    }

    fn spawn(&self, log: &Path) -> Result<Child> {
        // The kernel ends the process with this one, even if this one is
        // killed.
        let mut command = Command::new("setpriv");
        command
            .args(["--pdeathsig", "KILL"])
            .arg(&self.binary)
            .args(["serve", "--log", "json"])
            .current_dir(&self.folder)
            .env_remove("SEKISHO_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(File::create(log)?)
            .kill_on_drop(true);
        command.spawn().context("setpriv, of util-linux")
    }
}

/// Addresses of a process.
struct Serving {
    https: SocketAddr,
    http: Option<SocketAddr>,
    admin: Option<SocketAddr>,
}

impl Serving {
    /// Reads the log line `serving`; None before that line.
    fn read(log: &Path) -> Result<Option<Self>> {
        let text = fs::read_to_string(log)?;
        let mut lines = text
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        let serving = lines.find(|line| line["fields"]["message"] == "serving");
        let Some(serving) = serving else {
            return Ok(None);
        };
        let address = |name: &str| serving["fields"][name].as_str()?.parse().ok();
        Ok(Some(Self {
            https: address("https").context("an address")?,
            http: address("http"),
            admin: address("admin"),
        }))
    }
}

const START_TIMEOUT: Duration = Duration::from_secs(30);
const POLL_INTERVAL: Duration = Duration::from_millis(10);
/// Longer than `[server] drain_timeout`.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(40);
const TAIL: usize = 12;
