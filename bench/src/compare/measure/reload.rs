//! Reload of a server, and a new host's first page.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, bail, ensure};
use rcgen::KeyPair;
use rustix::process::Signal;
use tokio::process::Command;
use tokio::time::sleep;

use super::{Sample, Subject, mib, millis};
use crate::compare::peers;
use crate::compare::rows::{Setup, figure};
use crate::compare::server::{Launch, PAGE, Server, signal};
use crate::fixtures::{Authority, Folder, host_name};
use sekisho_bench::accounting::Memory;
use sekisho_bench::load::client::Client;

impl Subject<'_> {
    /// Measures a reload, from its signal until the changed configuration is served: one host
    /// more, or one address more for sekisho, which needs no reload for a host.
    pub(super) async fn reload(&mut self) -> Result<Sample> {
        let change = self.change()?;
        let server = self.start(&change.before).await?;
        let before = server.memory()?;
        sleep(LINGERING).await;
        self.write(&change)?;
        let peak = Peak::start(server.pid());
        let begin = Instant::now();
        self.signal(&server)?;
        let served = change.wait(begin).await?;
        sleep(LINGERING).await;
        let peak = peak.end()?.max(before.pss);
        Ok(vec![
            (figure::RELOAD, millis(served)),
            (figure::PSS_BEFORE, mib(before.pss)),
            (figure::PSS_PEAK, mib(peak)),
            (figure::PSS, mib(server.memory()?.pss)),
        ])
    }

    /// Measures the time from a new host's record to its first page: an import for sekisho;
    /// for a peer its part of the configuration, and a reload.
    pub(super) async fn first_page(&mut self) -> Result<Sample> {
        let served = match self.case.setup.is_sekisho() {
            true => self.imported().await?,
            false => {
                let change = self.change()?;
                let server = self.start(&change.before).await?;
                sleep(LINGERING).await;
                let begin = Instant::now();
                self.write(&change)?;
                self.signal(&server)?;
                change.wait(begin).await?
            }
        };
        Ok(vec![(figure::FIRST_PAGE, millis(served))])
    }

    /// Prepares a server, and its configuration as it will be.
    fn change(&self) -> Result<Change> {
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let whole = self.prepare(&self.name, None, self.row.workers)?;
        let text = fs::read_to_string(whole.configuration()?)?;
        let fewer = (!self.case.setup.is_sekisho()).then_some(hosts - 1);
        let before = self.prepare(&self.name, fewer, self.row.workers)?;
        let (old, new) = (before.address.to_string(), whole.address.to_string());
        Ok(match fewer {
            Some(last) => Change {
                probe: before.probe()?,
                host: host_name(last),
                text: text.replace(&new, &old),
                before,
            },
            None => Change {
                probe: whole.probe()?,
                host: host_name(0),
                text: add_address(&text, &new, &old),
                before,
            },
        })
    }

    /// Writes the changed configuration, and the new host's file for a peer that reads a
    /// folder.
    fn write(&self, change: &Change) -> Result<()> {
        if matches!(self.case.setup, Setup::HaProxy | Setup::Caddy) {
            let hosts = self.row.hosts.count(self.place.options.is_short());
            let fixture = self.place.workspace.fixture(self.row.key, hosts);
            peers::bundles(Folder(&fixture), hosts)?;
        }
        Ok(fs::write(change.before.configuration()?, &change.text)?)
    }

    /// Sends the signal on which this server reads its configuration anew.
    fn signal(&mut self, server: &Server) -> Result<()> {
        let (name, number) = match self.case.setup {
            Setup::Nginx { .. } | Setup::NginxNext { .. } | Setup::Sekisho { .. } => {
                ("HUP", Signal::HUP)
            }
            Setup::Apache | Setup::Caddy => ("USR1", Signal::USR1),
            Setup::HaProxy => ("USR2", Signal::USR2),
            Setup::NginxLua
            | Setup::NginxCosocket { .. }
            | Setup::CaddyHttp
            | Setup::Cache(_)
            | Setup::RedisClient => bail!("this case has no reload"),
        };
        self.commands.push(format!("kill -{name} PID"));
        signal(number, &[server.pid()]);
        Ok(())
    }

    /// Imports a host that the server noted as absent; returns the time to its first page.
    async fn imported(&mut self) -> Result<Duration> {
        let launch = self.prepare(&self.name, None, self.row.workers)?;
        // An earlier sample may have left it in the store.
        let _ = self.run_command(&launch, &["host", "remove", NEW]).await;
        let hosts = self.row.hosts.count(self.place.options.is_short());
        let fixture = self.place.workspace.fixture(self.row.key, hosts);
        let key = KeyPair::generate()?;
        let chain = Authority::load_or_create(Folder(&fixture))?.chain(NEW, &key)?;
        let pair = self
            .place
            .workspace
            .scratch(&format!("{}-new", self.name))?;
        let (chain_file, key_file) = (pair.join("new.crt"), pair.join("new.key"));
        fs::write(&chain_file, chain)?;
        fs::write(&key_file, key.serialize_pem())?;
        let _server = self.start(&launch).await?;
        let probe = launch.probe()?;
        let absent = probe.visit(NEW, Some(PAGE), &mut Vec::new()).await;
        ensure!(absent.is_err(), "{NEW} was there before its import");
        let (chain, key) = (chain_file.to_string_lossy(), key_file.to_string_lossy());
        let import = ["cert", "import", "--chain", &chain, "--key", &key];
        let begin = Instant::now();
        self.run_command(&launch, &import).await?;
        wait(&probe, NEW, begin, launch.bound).await
    }

    /// Runs a command of sekisho on this server's store.
    async fn run_command(&mut self, launch: &Launch, arguments: &[&str]) -> Result<()> {
        let shown = arguments.join(" ");
        let mut command = Command::new(&launch.program);
        command.arg("--config").arg(launch.configuration()?);
        let output = command.args(arguments).kill_on_drop(true).output().await?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "{shown} failed: {said}");
        self.commands.push(format!("sekisho {shown}"));
        Ok(())
    }
}

/// Change of a configuration.
struct Change {
    /// Launch with the configuration before.
    before: Launch,
    /// Configuration after.
    text: String,
    /// Client and host that tell whether the change is served.
    probe: Client,
    host: String,
}

impl Change {
    async fn wait(&self, begin: Instant) -> Result<Duration> {
        wait(&self.probe, &self.host, begin, self.before.bound).await
    }
}

/// Waits until a host is served with its own certificate; returns the time since `begin`.
async fn wait(probe: &Client, host: &str, begin: Instant, bound: Duration) -> Result<Duration> {
    let mut buffer = Vec::new();
    while let Err(failure) = probe.visit(host, Some(PAGE), &mut buffer).await {
        if begin.elapsed() > bound {
            let (seconds, kind) = (bound.as_secs(), failure.kind());
            bail!("{host} is not served after {seconds} s ({kind})");
        }
        thread::sleep(rest(begin.elapsed()));
    }
    Ok(begin.elapsed())
}

/// Returns the rest between two handshakes: they tell the time to a hundredth, and take little
/// from the core on which the server reloads.
fn rest(elapsed: Duration) -> Duration {
    (elapsed / 100).max(Duration::from_millis(1))
}

/// Adds an address to those that sekisho listens on.
fn add_address(text: &str, address: &str, other: &str) -> String {
    let both = format!("\"{address}\", \"{other}\"");
    text.replacen(&format!("\"{address}\""), &both, 1)
}

/// Most memory of a server and its descendants, sampled by a thread: an old process is the
/// parent or a child of the new one.
struct Peak {
    ended: Arc<AtomicBool>,
    thread: JoinHandle<u64>,
}

impl Peak {
    fn start(root: u32) -> Self {
        let ended = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&ended);
        let thread = thread::spawn(move || {
            let mut peak = 0;
            while !seen.load(Ordering::Relaxed) {
                let begin = Instant::now();
                // A process may end while it is read.
                let memory = Memory::read(root).unwrap_or_default();
                peak = peak.max(memory.pss);
                // A reading delays the server's page faults.
                thread::sleep((begin.elapsed() * 10).max(LEAST_REST));
            }
            peak
        });
        Self { ended, thread }
    }

    fn end(self) -> Result<u64> {
        self.ended.store(true, Ordering::Relaxed);
        let peak = self.thread.join();
        let peak = peak.map_err(|_| anyhow!("the sampling thread panicked"))?;
        (peak > 0).then_some(peak).context("no memory was read")
    }
}

/// Host that is in no fixture.
const NEW: &str = "new.example.test";
/// Old processes go on for a while after the new one serves. HAProxy's master loses a signal
/// that comes right after its worker's first page.
const LINGERING: Duration = Duration::from_secs(1);
const LEAST_REST: Duration = Duration::from_millis(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_added_to_those_of_https_alone() {
        let text = "[listen]\nhttps = [\"127.0.0.1:1\"]\nadmin = \"127.0.0.1:2\"\n";
        let changed = "[listen]\nhttps = [\"127.0.0.1:1\", \"127.0.0.1:3\"]\n\
                       admin = \"127.0.0.1:2\"\n";
        assert_eq!(add_address(text, "127.0.0.1:1", "127.0.0.1:3"), changed);
    }

    #[test]
    fn waiting_takes_a_hundredth_of_the_time() {
        let rests = [0, 50, 2_000].map(|ms| rest(Duration::from_millis(ms)).as_millis());
        assert_eq!(rests, [1, 1, 20]);
    }

    #[test]
    fn the_peak_is_of_this_process() {
        let peak = Peak::start(std::process::id());
        let held = vec![1_u8; 64 << 20];
        thread::sleep(Duration::from_millis(200));
        assert_eq!(held[1 << 20], 1);
        drop(held);
        assert!(peak.end().unwrap() > 64 << 20);
    }
}
