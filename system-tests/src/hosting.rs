//! Server with hosts in a catalog of its own, and upstreams behind it: the setting of
//! the tests that attack the real binary.

pub(crate) mod answers;
pub(crate) mod fastcgi;
pub(crate) mod frames;
mod upstream;

use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, RootCertStore};
use sekisho_certs::credential::{Credential, Dates};
use sekisho_certs::seal::KeyRing;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Clock, CredentialId, HostPattern, HostRecord, KeyType, Sealer, Secret, Site, Tenant,
};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use sekisho_testkit::{Key, TestCa};
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::{TcpSocket, TcpStream};
use tokio::time::timeout;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

pub(crate) use self::upstream::{Kind, Seen, Upstream};
use crate::server::Server;

/// Setting of a run. Its folder is removed when it is dropped.
pub(crate) struct Hosting {
    folder: TempDir,
    binary: PathBuf,
    sealer: Sealer,
    pub(crate) ca: TestCa,
    /// `[listen] plain` of its servers.
    pub(crate) plain: bool,
}

/// Host to be stored, with a certificate of its own.
pub(crate) struct Host {
    pub(crate) name: String,
    pub(crate) tenant: String,
    /// Site as JSON; null for the site of the configuration.
    pub(crate) site: Value,
    /// Other names that the certificate covers.
    pub(crate) also: Vec<String>,
}

impl Hosting {
    pub(crate) async fn new(binary: &Path) -> Result<Self> {
        let folder = tempfile::Builder::new()
            .prefix("sekisho-hosting-")
            .tempdir()?;
        let binary = fs::canonicalize(binary).with_context(|| binary.display().to_string())?;
        let catalog = Sqlite::open(&folder.path().join("hosts.db"), Mode::Create)?;
        let ring = KeyRing::create_file(&folder.path().join("master.key"))?;
        let ca = TestCa::new();
        fs::write(folder.path().join("ca.pem"), ca.root_pem())?;
        for below in ["pages", "upstreams"] {
            fs::create_dir(folder.path().join(below))?;
        }
        Ok(Self {
            sealer: Sealer::create(Arc::new(catalog), ring).await?,
            binary,
            folder,
            ca,
            plain: false,
        })
    }

    /// Returns the folder of the configuration and the store.
    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Returns the binary, absolute.
    pub(crate) fn binary(&self) -> &Path {
        &self.binary
    }

    /// Returns the folder that sites may serve files of.
    pub(crate) fn pages(&self) -> PathBuf {
        self.folder.path().join("pages")
    }

    /// Returns the folder of the upstreams' files.
    pub(crate) fn upstreams(&self) -> PathBuf {
        self.folder.path().join("upstreams")
    }

    /// Returns the PEM file of the CA.
    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("ca.pem")
    }

    /// Stores hosts, or replaces them.
    pub(crate) async fn put(&self, hosts: &[Host]) -> Result<()> {
        for some in hosts.chunks(CHUNK) {
            let mut writes = Vec::with_capacity(2 * some.len());
            for host in some {
                writes.extend(self.writes(host)?);
            }
            self.sealer.write(writes).await?;
        }
        Ok(())
    }

    /// Stores a host without a certificate.
    pub(crate) async fn put_bare(&self, host: &Host) -> Result<()> {
        let write = Write::PutHost(record(host)?, Precondition::Any);
        self.sealer.write(vec![write]).await?;
        Ok(())
    }

    fn writes(&self, host: &Host) -> Result<[Write<Secret>; 2]> {
        let also = host.also.iter().map(String::as_str);
        let names: Vec<_> = [host.name.as_str()].into_iter().chain(also).collect();
        let pair = self.ca.issue(&names, Key::P256);
        let (chain, key) = (pair.chain_pem(), pair.key_pem());
        let credential = Credential::parse(chain.as_bytes(), key.as_bytes(), Dates::Any)?;
        let id = CredentialId::fresh(&Clock::System);
        let mut record = record(host)?;
        record.references.set(KeyType::Ecdsa, Some(id));
        Ok([
            Write::PutCredential(
                credential.into_stored(id).into_sealable(),
                Precondition::Absent,
            ),
            Write::PutHost(record, Precondition::Any),
        ])
    }

    /// Starts a server on these hosts. `more` is text of its configuration behind
    /// `[server]`.
    pub(crate) async fn serve(&self, more: &str) -> Result<Server> {
        let allow = [self.pages().display().to_string(), "127.0.0.0/8".to_owned()];
        self.serve_allowing(&allow, more).await
    }

    /// Starts a server as [`Hosting::serve`] does, with these entries of `[sites] allow`.
    pub(crate) async fn serve_allowing(&self, allow: &[String], more: &str) -> Result<Server> {
        self.configure(allow, more)?;
        let server = Server::new(&self.binary, self.folder.path().to_owned());
        server.start().await?;
        Ok(server)
    }

    /// Writes the configuration of a server.
    pub(crate) fn configure(&self, allow: &[String], more: &str) -> Result<()> {
        let plain = self.plain;
        let config = format!(
            "[listen]\nhttps = [\"127.0.0.1:0\"]\nhttp = [\"127.0.0.1:0\"]\nplain = {plain}\n\
             admin = \"127.0.0.1:0\"\n\
             [store]\nurl = \"sqlite:hosts.db\"\n\
             [sites]\nallow = {allow:?}\n\
             [server]\n{more}\n"
        );
        Ok(fs::write(self.folder.path().join("sekisho.toml"), config)?)
    }

    /// Makes a client that trusts the CA and offers this protocol alone.
    pub(crate) fn client(&self, server: &Server, alpn: &str) -> Result<Client> {
        let mut roots = RootCertStore::empty();
        roots.add(self.ca.root())?;
        let mut config = ClientConfig::builder()
            .with_root_certificates(roots)
            .with_no_client_auth();
        config.alpn_protocols = vec![alpn.as_bytes().to_vec()];
        config.resumption = rustls::client::Resumption::disabled();
        let (address, _) = server.serving().context("it serves")?;
        Ok(Client {
            tls: TlsConnector::from(Arc::new(config)),
            server: address,
            plain: server.plain().context("it serves plain HTTP")?,
        })
    }
}

/// Opens connections to the server.
#[derive(Clone)]
pub(crate) struct Client {
    tls: TlsConnector,
    pub(crate) server: SocketAddr,
    /// Address of plain HTTP.
    pub(crate) plain: SocketAddr,
}

impl Client {
    /// Connects from an address of loopback for a name.
    pub(crate) async fn connect(&self, from: Ipv4Addr, name: &str) -> Result<TlsStream<TcpStream>> {
        let connecting = async {
            let socket = socket(from, self.server).await?;
            let name = ServerName::try_from(name.to_owned())?;
            anyhow::Ok(self.tls.connect(name, socket).await?)
        };
        timeout(HANDSHAKE, connecting)
            .await
            .context("the handshake takes too long")?
    }

    /// Connects from an address of loopback without TLS.
    pub(crate) async fn connect_plain(&self, from: Ipv4Addr) -> Result<TcpStream> {
        socket(from, self.plain).await
    }
}

/// Makes the record of a host, without a certificate.
fn record(host: &Host) -> Result<HostRecord> {
    let pattern = HostPattern::parse(&host.name).with_context(|| host.name.clone())?;
    let mut record = HostRecord::new(pattern);
    record.tenant = Tenant::parse(&host.tenant).map_err(anyhow::Error::msg)?;
    record.site = (!host.site.is_null()).then(|| Site {
        format: FORMAT,
        json: host.site.to_string().into(),
    });
    Ok(record)
}

async fn socket(from: Ipv4Addr, to: SocketAddr) -> Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    socket.bind(SocketAddr::from((from, 0)))?;
    let socket = socket.connect(to).await?;
    socket.set_nodelay(true)?;
    Ok(socket)
}

/// Format of the documents, which has all keys.
const FORMAT: u32 = 3;
/// Hosts in one transaction.
const CHUNK: usize = 500;
const HANDSHAKE: Duration = Duration::from_secs(10);
