//! step-ca: a CA that validates inside the request that announces a challenge, and
//! answers it with the outcome.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{fs, thread};

use super::free_port;
use super::pebble::ChallengeServer;
use super::process::{Process, attempts, write};
use super::reaper::Reaper;
use crate::ca::TestCa;

/// step-ca with a name server of its own, which answers 127.0.0.1 for each name.
pub struct StepCa {
    folder: PathBuf,
    ca: TestCa,
    port: u16,
    challenges: ChallengeServer,
    _process: Process,
    _reaper: Reaper,
}

impl StepCa {
    /// Starts a CA whose certificates are valid for so many seconds, and which validates
    /// at these ports.
    ///
    /// # Panics
    /// If step-ca is not installed, or does not start.
    #[must_use]
    pub fn start(lifetime_s: u64, http: u16, tls: u16) -> Self {
        let folder = tempfile::Builder::new()
            .prefix("sekisho-step-ca-")
            .tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        let challenges = ChallengeServer::start(&folder);
        let ca = TestCa::named("step");
        let (intermediate, key) = ca.intermediate_pem();
        write(&folder, "root.pem", &ca.root_pem());
        write(&folder, "intermediate.pem", &intermediate);
        write(&folder, "key.pem", &key);
        let (port, process) = attempts("step-ca", || {
            let port = free_port();
            write(&folder, "ca.json", &config(port, lifetime_s));
            let mut command = Command::new(program());
            command
                .args(["ca.json", "--insecure"])
                .args([
                    "--resolver",
                    &format!("127.0.0.1:{}", challenges.dns_port()),
                ])
                .args(["--acme-http-port", &http.to_string()])
                .args(["--acme-tls-port", &tls.to_string()]);
            let process = Process::spawn(&mut command, &folder, "step-ca");
            let process = process.answers((Ipv4Addr::LOCALHOST, port).into())?;
            Some((port, process))
        });
        Self {
            folder,
            ca,
            port,
            challenges,
            _process: process,
            _reaper: reaper,
        }
    }

    /// Returns its port on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the path of the directory's URL.
    #[must_use]
    pub fn path(&self) -> &'static str {
        "/acme/acme/directory"
    }

    /// Returns the file with the root, of which step-ca's own certificate is too.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.join("root.pem")
    }

    /// Returns the root as PEM.
    #[must_use]
    pub fn root_pem(&self) -> String {
        self.ca.root_pem()
    }

    /// Returns the name server that it asks.
    #[must_use]
    pub fn challenges(&self) -> &ChallengeServer {
        &self.challenges
    }

    /// Returns what step-ca wrote.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("step-ca.log")).unwrap_or_default()
    }
}

impl Drop for StepCa {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("step-ca:\n{}", self.log());
        }
    }
}

fn config(port: u16, lifetime_s: u64) -> String {
    format!(
        r#"{{
            "root": "root.pem",
            "crt": "intermediate.pem",
            "key": "key.pem",
            "address": "127.0.0.1:{port}",
            "dnsNames": ["127.0.0.1", "localhost"],
            "logger": {{"format": "text"}},
            "db": {{"type": "bbolt", "dataSource": "db"}},
            "authority": {{
                "backdate": "0s",
                "provisioners": [{{
                    "type": "ACME",
                    "name": "acme",
                    "claims": {{
                        "minTLSCertDuration": "{lifetime_s}s",
                        "defaultTLSCertDuration": "{lifetime_s}s",
                        "maxTLSCertDuration": "{lifetime_s}s"
                    }}
                }}]
            }}
        }}"#
    )
}

/// Returns the path of the program that `make deps` installs.
fn program() -> PathBuf {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../target/step-ca-0.30.2");
    let program = Path::new(folder).join("step-ca");
    let is_there = program.is_file();
    assert!(is_there, "there is no step-ca in {folder}; run `make deps`");
    program
}
