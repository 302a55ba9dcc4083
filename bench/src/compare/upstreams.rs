//! Upstreams of the proxies, on the client's core, and catalogs that name them.

use std::ffi::OsString;
use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rcgen::KeyPair;
use sekisho_certs::credential::{Credential, Dates};
use sekisho_certs::seal::KeyRing;
use sekisho_certs::store::{Precondition, Write};
use sekisho_certs::{
    Clock, CredentialId, HostPattern, HostRecord, KeyType, Sealer, Secret, Site, Tenant,
};
use sekisho_stores::Mode;
use sekisho_stores::sqlite::Sqlite;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use super::codings;
use super::options::Options;
use super::password;
use super::php::{self, Php};
use super::rows::{Content, Row, Texts};
use super::server::PROGRAM;
use super::tied;
use super::workspace::Workspace;
use crate::fixtures::{Authority, Folder, host_name};
use crate::upstream;

/// Running upstreams. Dropping them ends their process.
#[derive(Debug, Default)]
pub(crate) struct Upstreams {
    /// Process and port of the servers of HTTP.
    http: Option<(Child, u16)>,
    _php: Option<Php>,
}

impl Upstreams {
    /// Starts the upstreams if a row needs them, and makes the catalogs whose host
    /// records have sites. The port changes with each run, and the catalogs with it.
    pub(crate) async fn start(
        rows: &[&Row],
        workspace: &Workspace,
        options: &Options,
    ) -> Result<Self> {
        let mut upstreams = Self::default();
        if rows.iter().any(|row| row.needs_upstreams()) {
            upstreams.http = Some(launch(options.client_core, &[]).await?);
        }
        if rows.iter().any(|row| row.needs_php()) {
            let folder = workspace.php();
            upstreams._php = Some(Php::start(&folder, options.client_core).await?);
        }
        let mut made = Vec::new();
        for row in rows {
            let fixture = row.hosts.count(options.is_short());
            let fixture = workspace.fixture(row.key, fixture);
            for content in row.contents() {
                let hosts = row.hosts_of(content, options.is_short());
                if !made.contains(&(hosts, content)) {
                    let fill = upstreams.fill(workspace, Folder(&fixture), hosts, content);
                    fill.await?;
                    made.push((hosts, content));
                }
            }
        }
        Ok(upstreams)
    }

    pub(crate) fn port(&self) -> Result<u16> {
        let running = self.http.as_ref().context("no row needs upstreams")?;
        Ok(running.1)
    }

    /// Makes a catalog of hosts that share a wildcard's certificate, each with a
    /// site of its own.
    async fn fill(
        &self,
        workspace: &Workspace,
        fixture: Folder<'_>,
        hosts: usize,
        content: Content,
    ) -> Result<()> {
        let folder = workspace.sites(hosts, content);
        if folder.exists() {
            fs::remove_dir_all(&folder)?;
        }
        fs::create_dir_all(&folder)?;
        let catalog = Sqlite::open(&folder.join("hosts.db"), Mode::Create)?;
        let ring = KeyRing::create_file(&folder.join("master.key"))?;
        let sealer = Sealer::create(Arc::new(catalog), ring).await?;
        let id = CredentialId::fresh(&Clock::System);
        sealer.write(vec![wildcard(id, fixture)?]).await?;
        let numbers: Vec<usize> = (0..hosts).collect();
        for some in numbers.chunks(CHUNK) {
            let put = |number: &usize| {
                let mut record = host(*number, id)?;
                record.site = Some(self.site(workspace, *number, content)?);
                if content == Content::Tenants {
                    let tenant = format!("tenant{number}");
                    record.tenant = Tenant::parse(&tenant).map_err(anyhow::Error::msg)?;
                }
                Ok(Write::PutHost(record, Precondition::Absent))
            };
            let writes: Result<Vec<Write<Secret>>> = some.iter().map(put).collect();
            sealer.write(writes?).await?;
        }
        Ok(())
    }

    fn site(&self, workspace: &Workspace, number: usize, content: Content) -> Result<Site> {
        let (format, json) = match content {
            Content::Files | Content::Roots => {
                let root = workspace.site();
                (1, serde_json::json!({ "root": root }))
            }
            Content::Upstreams(count) => (2, self.proxied(number % count)?),
            Content::Tenants => (2, self.proxied(0)?),
            Content::Scripts { keep } => (3, script(&workspace.php(), keep)),
            Content::Password => (3, password::site(&workspace.site())),
            Content::Texts(texts) => {
                let mut site = match texts {
                    Texts::Precompressed | Texts::Compressed => {
                        serde_json::json!({ "root": workspace.site() })
                    }
                    Texts::Proxied => self.proxied(number % 100)?,
                };
                codings::add_coding(&mut site, texts);
                (3, site)
            }
            Content::Programs(_) => (3, program(workspace, number)),
        };
        let json = json.to_string().into();
        Ok(Site { format, json })
    }

    fn proxied(&self, number: usize) -> Result<serde_json::Value> {
        let address = upstream::address(number, self.port()?);
        Ok(serde_json::json!({ "upstream": format!("http://{address}") }))
    }
}

/// Makes the site of a script.
fn script(folder: &Path, keep: bool) -> serde_json::Value {
    let url = format!("unix:{}", php::socket(folder).display());
    let keep = if keep { KEPT } else { 0 };
    serde_json::json!({
        "root": folder,
        "fastcgi": { "servers": [url], "scripts": [".html"], "keep": keep },
    })
}

/// Makes the site of files and a program. No host shares its document with another: a
/// million of them fill a cache of 1 GiB.
fn program(workspace: &Workspace, number: usize) -> serde_json::Value {
    let text = format!("{:PROGRAM_SITE$}", host_name(number));
    let folder = PROGRAM.rsplit_once('/').map(|(folder, _)| folder);
    serde_json::json!({
        "root": workspace.site(),
        "paths": [
            { "path": folder, "root": workspace.programs(), "cgi": true, "strip": true },
            { "path": "/gone", "status": 410, "text": text },
        ],
    })
}

/// Starts upstreams on a core, with more options.
pub(crate) async fn launch(core: usize, more: &[OsString]) -> Result<(Child, u16)> {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
    let port = listener.local_addr()?.port();
    let mut child = Command::from(tied::command_on(core))
        .arg(std::env::current_exe()?)
        .args(["upstream", "--port", &port.to_string()])
        .args(more)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .context("cannot run setpriv")?;
    let output = child
        .stdout
        .take()
        .context("the upstreams have no output")?;
    let mut lines = BufReader::new(output).lines();
    let line = timeout(START_BOUND, lines.next_line()).await;
    let line = line.context("the upstreams do not start")??;
    ensure!(
        line.as_deref() == Some(upstream::READY),
        "the upstreams ended at their start"
    );
    Ok((child, port))
}

fn wildcard(id: CredentialId, fixture: Folder<'_>) -> Result<Write<Secret>> {
    let key = KeyPair::generate()?;
    let wildcard = host_name(0).replacen("h0.", "*.", 1);
    let chain = Authority::load_or_create(fixture)?.chain(&wildcard, &key)?;
    let pem = key.serialize_pem();
    let credential = Credential::parse(chain.as_bytes(), pem.as_bytes(), Dates::Any)?;
    let stored = credential.into_stored(id).into_sealable();
    Ok(Write::PutCredential(stored, Precondition::Absent))
}

fn host(number: usize, id: CredentialId) -> Result<HostRecord> {
    let mut record = HostRecord::new(HostPattern::parse(&host_name(number))?);
    record.references.set(KeyType::Ecdsa, Some(id));
    Ok(record)
}

/// Connections to php-fpm that each server keeps.
pub(crate) const KEPT: usize = 10;
/// Bytes of the text that each site with a program has.
const PROGRAM_SITE: usize = 512;
/// Hosts of one transaction.
const CHUNK: usize = 1_000;
const START_BOUND: Duration = Duration::from_secs(10);
