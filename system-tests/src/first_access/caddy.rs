//! Caddy with on-demand TLS, and the endpoint that it asks which hosts may have a certificate.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use sekisho_testkit::{Answer, Endpoint, Speaks};
use tokio::net::TcpStream;
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep};

use crate::acme::Setting;

/// Process of Caddy; it ends when this is dropped.
pub(super) struct Caddy {
    child: Child,
    log: PathBuf,
    /// Answers 200 for the hosts, and 404 for others.
    _ask: Endpoint,
}

impl Caddy {
    /// Starts Caddy for these hosts, with a new folder for what it stores, and waits until it
    /// listens where the CA validates.
    pub(super) async fn start(
        binary: &Path,
        setting: &Setting,
        folder: &Path,
        hosts: &[String],
    ) -> Result<Self> {
        fs::create_dir(folder)?;
        let ask = Endpoint::start(Speaks::Plain);
        for host in hosts {
            ask.put(&format!("/?domain={host}"), Answer::ok(""));
        }
        let mut command = command(binary, setting, folder, &ask)?;
        let log = folder.join("log");
        let child = command.stderr(File::create(&log)?).spawn();
        let mut caddy = Self {
            child: child.context("setpriv, of util-linux")?,
            log,
            _ask: ask,
        };
        let begun = Instant::now();
        let address = (Ipv4Addr::LOCALHOST, setting.https);
        while TcpStream::connect(address).await.is_err() {
            if let Some(status) = caddy.child.try_wait()? {
                bail!("Caddy ended with {status}:\n{}", caddy.tail());
            }
            let is_late = begun.elapsed() > START;
            ensure!(!is_late, "Caddy does not listen:\n{}", caddy.tail());
            sleep(POLL).await;
        }
        Ok(caddy)
    }

    /// Ends the process, and waits until its port is free.
    pub(super) async fn end(mut self) -> Result<()> {
        Ok(self.child.kill().await?)
    }

    /// Returns the last lines of the log.
    pub(super) fn tail(&self) -> String {
        let text = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<_> = text.lines().collect();
        lines[lines.len().saturating_sub(TAIL)..].join("\n")
    }
}

/// Returns the command of Caddy, which finds in its environment what its configuration names.
fn command(binary: &Path, setting: &Setting, folder: &Path, ask: &Endpoint) -> Result<Command> {
    let config = folder.join("Caddyfile");
    fs::write(&config, CONFIG)?;
    // The kernel ends the process with this one, even if this one is killed.
    let mut command = Command::new("setpriv");
    command
        .args(["--pdeathsig", "KILL"])
        .arg(binary)
        .args(["run", "--adapter", "caddyfile", "--config"])
        .arg(config)
        .env("HTTPS_PORT", setting.https.to_string())
        .env("FOLDER", folder.join("storage"))
        .env("CA", setting.pebble.directory())
        .env("CA_ROOT", setting.pebble.root())
        .env("ASK", format!("http://{}/", ask.address))
        .env("PAGES", setting.pages())
        // Caddy keeps files of its own beside its storage.
        .env("XDG_CONFIG_HOME", folder)
        .env("XDG_DATA_HOME", folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .kill_on_drop(true);
    Ok(command)
}

/// Returns whether there is such a program, on `PATH` if its name has no slash.
pub(super) fn is_installed(binary: &Path) -> bool {
    let run = std::process::Command::new(binary).arg("version").output();
    !run.is_err_and(|error| error.kind() == ErrorKind::NotFound)
}

const CONFIG: &str = include_str!("Caddyfile");
/// Far more than a start takes.
const START: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(10);
const TAIL: usize = 12;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_is_not_there_is_not_installed() {
        assert!(!is_installed(Path::new("target/no-such-caddy")));
        assert!(is_installed(Path::new("true")));
    }
}
