//! Pebble: a CA that speaks ACME and forgets all when it ends.

mod challenges;
mod limits;
mod proxy;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread;

pub use challenges::ChallengeServer;
pub use limits::{CaLimits, LimitedCa};
pub use proxy::CaProxy;

use super::free_ports;
use super::process::{Process, attempts, write};
use super::reaper::Reaper;
use crate::ca::{Key, TestCa};
use crate::client;

/// Pebble with a challenge server of its own, which is its resolver too.
pub struct Pebble {
    folder: PathBuf,
    ca: TestCa,
    port: u16,
    management: u16,
    challenges: ChallengeServer,
    _process: Process,
    _reaper: Reaper,
}

/// Behaviour of a CA. The default rejects no nonce, uses no
/// authorization a second time, validates at once and tells nobody to wait.
#[derive(Clone, Debug, Default)]
pub struct PebbleOptions {
    /// Id and key (base64url) of an external account; accounts then need one.
    pub external_account: Option<(String, String)>,
    /// Further roots, each with a chain of its own.
    pub alternate_roots: u8,
    /// Percentage of good nonces that are rejected.
    pub rejected_nonces: u8,
    /// Profiles and their validity in seconds; none means one, `default`.
    pub profiles: Vec<(String, u64)>,
    /// Seconds of the field `Retry-After` of orders.
    pub retry_after: u32,
    /// Names that no certificate is issued for.
    pub blocked: Vec<String>,
    /// Port at which HTTP-01 is validated; that of the challenge server if none.
    pub http_port: Option<u16>,
    /// Port at which TLS-ALPN-01 is validated, likewise.
    pub tls_port: Option<u16>,
    /// Name server that is asked; the challenge server if none.
    pub resolver: Option<SocketAddr>,
}

impl Pebble {
    /// Starts a CA.
    ///
    /// # Panics
    /// If Pebble is not installed, or does not start.
    #[must_use]
    pub fn start(options: &PebbleOptions) -> Self {
        let folder = tempfile::Builder::new().prefix("sekisho-pebble-").tempdir();
        // The reaper removes the folder, even if this process is killed.
        let folder = folder.expect("a folder").keep();
        let reaper = Reaper::new(&folder);
        let challenges = ChallengeServer::start(&folder);
        let ca = TestCa::new();
        let pair = ca.issue(&["127.0.0.1", "localhost"], Key::P256);
        write(&folder, "cert.pem", &pair.chain_pem());
        write(&folder, "key.pem", &pair.key_pem());
        write(&folder, "root.pem", &ca.root_pem());
        let ((port, management), process) = attempts("Pebble", || {
            let [port, management] = free_ports();
            let ports = (port, management);
            let config = options.config(ports, &challenges);
            write(&folder, "config.json", &config);
            let process = options.spawn(&folder, &challenges);
            let process = process.answers((Ipv4Addr::LOCALHOST, port).into())?;
            // The two are bound in no order.
            let process = process.answers((Ipv4Addr::LOCALHOST, management).into())?;
            Some((ports, process))
        });
        Self {
            folder,
            ca,
            port,
            management,
            challenges,
            _process: process,
            _reaper: reaper,
        }
    }

    /// Returns the URL of the directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("https://127.0.0.1:{}/dir", self.port)
    }

    /// Returns the port of ACME on 127.0.0.1.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the file with the root of Pebble's own HTTPS certificate. It is none of
    /// the roots that issue.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.join("root.pem")
    }

    /// Returns the challenge server.
    #[must_use]
    pub fn challenges(&self) -> &ChallengeServer {
        &self.challenges
    }

    /// Returns the root, PEM, that issues chain `number`; 0 is the default one.
    ///
    /// # Panics
    /// If there is none of that number.
    pub async fn issuer(&self, number: u8) -> String {
        let answer = self.managed("GET", &format!("/roots/{number}"), "").await;
        let begin = answer.find("-----BEGIN").expect("a root of that number");
        answer[begin..].to_owned()
    }

    /// Sets the renewal information (RFC 9773) of a certificate, PEM, to this JSON
    /// text.
    ///
    /// # Panics
    /// If Pebble did not issue the certificate.
    pub async fn set_renewal_info(&self, certificate: &str, json: &str) {
        let body = format!(
            r#"{{"Certificate": {}, "ARIResponse": {}}}"#,
            quoted(certificate),
            quoted(json)
        );
        let answer = self.managed("POST", "/set-renewal-info/", &body).await;
        assert!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
    }

    /// Returns the status of a certificate, `Valid` or `Revoked`, and more, as JSON.
    ///
    /// # Panics
    /// If Pebble can't be asked.
    pub async fn status(&self, serial: &str) -> String {
        let target = format!("/cert-status-by-serial/{serial}");
        self.managed("GET", &target, "").await
    }

    /// Returns what Pebble wrote.
    #[must_use]
    pub fn log(&self) -> String {
        fs::read_to_string(self.folder.join("pebble.log")).unwrap_or_default()
    }

    /// Returns how many orders Pebble has accepted, by its log.
    #[must_use]
    pub fn orders(&self) -> usize {
        self.log().matches("Added order ").count()
    }

    async fn managed(&self, method: &str, target: &str, body: &str) -> String {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.management));
        let config = client::config(&self.ca);
        let sent = client::send(address, "127.0.0.1", (method, target, body), config).await;
        sent.expect("Pebble answers")
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if thread::panicking() {
            eprintln!("Pebble:\n{}", self.log());
        }
    }
}

impl PebbleOptions {
    fn config(&self, ports: (u16, u16), challenges: &ChallengeServer) -> String {
        let (port, management) = ports;
        let external = match &self.external_account {
            None => String::new(),
            Some((id, key)) => format!(
                r#""externalAccountBindingRequired": true,
                "externalAccountMACKeys": {{{}: {}}},"#,
                quoted(id),
                quoted(key)
            ),
        };
        let profile = |(name, seconds): &(String, u64)| {
            format!(
                r#"{}: {{"description": "", "validityPeriod": {seconds}}}"#,
                quoted(name)
            )
        };
        let profiles: Vec<_> = self.profiles.iter().map(profile).collect();
        let blocked: Vec<_> = self.blocked.iter().map(|name| quoted(name)).collect();
        format!(
            r#"{{"pebble": {{
                "listenAddress": "127.0.0.1:{port}",
                "managementListenAddress": "127.0.0.1:{management}",
                "certificate": "cert.pem",
                "privateKey": "key.pem",
                "httpPort": {},
                "tlsPort": {},
                "keyAlgorithm": "ecdsa",
                {external}
                "domainBlocklist": [{}],
                "profiles": {{{}}},
                "retryAfter": {{"authz": {retry_after}, "order": {retry_after}}}
            }}}}"#,
            self.http_port.unwrap_or(challenges.http),
            self.tls_port.unwrap_or(challenges.tls),
            blocked.join(","),
            profiles.join(","),
            retry_after = self.retry_after,
        )
    }

    fn spawn(&self, folder: &Path, challenges: &ChallengeServer) -> Process {
        let own = (Ipv4Addr::LOCALHOST, challenges.dns).into();
        let resolver = self.resolver.unwrap_or(own).to_string();
        let mut command = Command::new(program("pebble"));
        command
            .args(["-config", "config.json", "-strict", "-dnsserver", &resolver])
            .env("PEBBLE_VA_NOSLEEP", "1")
            .env("PEBBLE_AUTHZREUSE", "0")
            .env("PEBBLE_WFE_NONCEREJECT", self.rejected_nonces.to_string())
            .env("PEBBLE_ALTERNATE_ROOTS", self.alternate_roots.to_string());
        Process::spawn(&mut command, folder, "pebble")
    }
}

/// Returns the path of a program that `make deps` installs.
fn program(name: &str) -> PathBuf {
    let folder = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../../target/pebble-2.10.1-patched"
    );
    let program = Path::new(folder).join(name);
    let is_there = program.is_file();
    assert!(is_there, "there is no {name} in {folder}; run `make deps`");
    program
}

/// Writes a text of printable characters and line feeds as JSON.
fn quoted(text: &str) -> String {
    let escaped = text.replace('\\', r"\\").replace('"', "\\\"");
    format!("\"{}\"", escaped.replace('\n', r"\n").replace('\r', ""))
}
