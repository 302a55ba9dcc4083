//! Setting of a run: the CA, the binary, pages and trust.

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use sekisho_testkit::TestCa;
use sekisho_testkit::services::{Pebble, PebbleOptions, free_ports};
use tempfile::TempDir;
use tokio::task::spawn_blocking;

use sekisho_bench::load::client::Client;
use sekisho_bench::tls::{Group, Offer, Trust, Version};

/// Setting of a run. Its folder is removed when it is dropped.
pub(crate) struct Setting {
    pub(crate) folder: TempDir,
    pub(crate) binary: PathBuf,
    pub(crate) pebble: Arc<Pebble>,
    /// Signs the certificates that are there from the start.
    pub(crate) ca: TestCa,
    /// Ports at which Pebble validates, at whatever address a name leads to.
    pub(crate) https: u16,
    pub(crate) http: u16,
}

impl Setting {
    pub(crate) async fn new(binary: &Path) -> Result<Self> {
        let [https, http] = free_ports();
        let options = PebbleOptions {
            tls_port: Some(https),
            http_port: Some(http),
            ..PebbleOptions::default()
        };
        let pebble = spawn_blocking(move || Pebble::start(&options)).await;
        let setting = Self {
            folder: tempfile::Builder::new().prefix("sekisho-acme-").tempdir()?,
            binary: fs::canonicalize(binary).with_context(|| binary.display().to_string())?,
            pebble: Arc::new(pebble.context("Pebble does not start")?),
            ca: TestCa::new(),
            https,
            http,
        };
        let issuer = setting.pebble.issuer(0).await;
        fs::write(setting.roots(), issuer + &setting.ca.root_pem())?;
        fs::create_dir(setting.pages())?;
        fs::write(setting.pages().join("index.html"), PAGE)?;
        Ok(setting)
    }

    /// Returns the folder of the pages.
    pub(crate) fn pages(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    /// Makes a client that trusts Pebble and the CA of the run. Its connections come
    /// from 127.NET.0.1 and up, 250 of each /24.
    pub(crate) fn client(&self, server: Ipv4Addr, net: u8) -> Result<Client> {
        let client = self.client_of(SocketAddr::from((server, self.https)))?;
        Ok(client.sources(SOURCES).in_net(net))
    }

    /// Makes a client of any server that trusts the same.
    pub(crate) fn client_of(&self, server: SocketAddr) -> Result<Client> {
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Authority(self.roots()),
            resume: None,
        };
        Client::new(server, &offer, DEADLINE)
    }

    /// Lets a name lead to a server: Pebble validates there.
    pub(crate) fn lead(&self, name: &str, server: Ipv4Addr) {
        let name = format!("{name}.");
        self.pebble.challenges().set_address(&name, server);
    }

    fn roots(&self) -> PathBuf {
        self.folder.path().join("roots.pem")
    }
}

/// Page of all hosts.
pub(crate) const PAGE: &str = "here";
/// Prefixes (/24) of clients: 40.
const SOURCES: u32 = 10_000;
/// Longer than a visitor may wait for a certificate.
const DEADLINE: Duration = Duration::from_secs(70);
