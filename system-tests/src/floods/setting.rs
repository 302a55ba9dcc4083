//! Server under attack, on a core of its own, with hosts of two tenants.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use tokio::process::Command;

use super::attacks::{Beside, Place};
use super::hostile::{Attacking, Hostile};
use super::programs::Programs;
use super::{locked, spoilt};
use crate::flood::attacker::Target;
use crate::hosting::{Host, Hosting, Kind, Upstream};
use crate::server::Server;

pub(super) struct Setting {
    pub(super) server: Server,
    pub(super) hostile: Attacking,
    pub(super) programs: Programs,
    _upstream: Upstream,
    _hosting: Hosting,
}

impl Setting {
    pub(super) async fn new(binary: &Path, place: Place, connections: usize) -> Result<Self> {
        let mut hosting = Hosting::new(binary).await?;
        hosting.plain = matches!(place, Place::Plain | Place::Bare);
        let pages = hosting.pages();
        fs::write(pages.join("index.html"), "here\n".repeat(120))?;
        File::create(pages.join("large"))?.set_len(LARGE)?;
        fs::write(pages.join("large.txt"), text(LARGE_TEXT))?;
        let upstream = Upstream::start(Kind::Nginx, &hosting.upstreams()).await?;
        let hostile = match place {
            Place::Scripted(hostile) => hostile,
            _ => Hostile::Silent,
        };
        let hostile = Attacking::start(hostile, &pages)?;
        let programs = Programs::new(hosting.folder())?;
        let attacked = match place {
            Place::Locked(_) => locked::site(&pages, locked::SLOW),
            Place::Program(program, _) => programs.site(program)?,
            Place::Coded => json!({ "root": pages, "compress": { "level": 9 } }),
            Place::Texts => json!({
                "root": pages, "compress": true,
                "paths": [{ "path": "/text", "status": 404, "text": text(5000) }],
            }),
            Place::Bounded => json!({ "root": pages, "in_flight": 4 }),
            Place::Filled => filled(&pages),
            Place::Alias => json!({ "as": "files.test" }),
            Place::Lost => json!({ "as": "nowhere.test" }),
            _ => hostile.site.clone(),
        };
        let files = json!({ "root": pages });
        let neighbour = match place {
            Place::Scripted(Hostile::Spoilt) => {
                spoilt::other_site(hostile.address, upstream.address)
            }
            Place::Locked(_) => locked::beside(&pages),
            Place::Program(..) => programs.beside(&pages)?,
            _ => files.clone(),
        };
        let proxied = json!({ "upstream": format!("http://{}", upstream.address) });
        let host = |name: &str, tenant: &str, site: &Value| Host {
            name: name.to_owned(),
            tenant: tenant.to_owned(),
            site: site.clone(),
            also: Vec::new(),
        };
        hosting
            .put(&[
                host("neighbour.test", "good", &neighbour),
                host("files.test", "bad", &files),
                host("proxied.test", "bad", &proxied),
                host("hostile.test", "bad", &attacked),
            ])
            .await?;
        let waiting = json!({ "http": "until-certificate", "status": 410 });
        hosting
            .put_bare(&host("*.bare.test", "bad", &waiting))
            .await?;
        // Fewer than the attackers' connections, so that these must make room.
        let limits = format!("workers = 1\nconnections = {connections}");
        let allow = [
            pages.display().to_string(),
            "127.0.0.0/8".to_owned(),
            programs.allow(),
        ];
        let server = hosting.serve_allowing(&allow, &limits).await?;
        pin(server.pid()?, SERVER_CORE).await?;
        pin(std::process::id(), CLIENT_CORE).await?;
        Ok(Self {
            server,
            hostile,
            programs,
            _upstream: upstream,
            _hosting: hosting,
        })
    }

    /// Returns what is measured: a page of the other tenant, half of whose requests go to a
    /// spoilt upstream, what the other tenant has of the attacked kind, or the attacked host
    /// itself.
    pub(super) fn neighbour(&self, place: Place) -> Result<Target> {
        let (host, path, fields) = match place {
            Place::Shared => ("proxied.test", "/", String::new()),
            Place::Locked(Beside::Like) => ("neighbour.test", "/own/", locked::fields("ann")),
            Place::Program(_, Beside::Like) => ("neighbour.test", "/own/it", String::new()),
            _ => ("neighbour.test", "/", String::new()),
        };
        Ok(Target {
            address: self.address()?,
            host: host.to_owned(),
            path: path.to_owned(),
            fields,
            net: None,
            per_prefix: usize::MAX,
        })
    }

    /// Returns what is attacked, from prefixes of its own.
    pub(super) fn target(&self, place: Place) -> Result<Target> {
        let (host, path) = match place {
            Place::Page => ("files.test", "/"),
            Place::Plain => ("nowhere.test", "/"),
            Place::Bare => ("bare.test", "/"),
            Place::Download => ("files.test", "/large"),
            Place::Upstream | Place::Shared => ("proxied.test", "/"),
            Place::Silent
            | Place::Scripted(_)
            | Place::Locked(_)
            | Place::Coded
            | Place::Bounded
            | Place::Filled
            | Place::Alias
            | Place::Lost => ("hostile.test", "/"),
            Place::Program(..) => ("hostile.test", "/it"),
            Place::Texts => ("hostile.test", "/text"),
        };
        let address = match place {
            Place::Plain | Place::Bare => self.server.plain().context("it serves plain HTTP")?,
            _ => self.address()?,
        };
        Ok(Target {
            address,
            host: host.to_owned(),
            path: path.to_owned(),
            fields: match place {
                Place::Coded => {
                    let shapes = "br;q=0.1, *;q=0, gzip;q=1.000, deflate, ;q=, identity;q=0.5, ";
                    format!("Accept-Encoding: {}gzip\r\n", shapes.repeat(40))
                }
                Place::Scripted(Hostile::Zeros | Hostile::Letters) | Place::Texts => {
                    "Accept-Encoding: gzip\r\n".to_owned()
                }
                _ => String::new(),
            },
            net: Some(ATTACKERS),
            per_prefix: PER_PREFIX,
        })
    }

    /// Returns a download of the attacked host, which must arrive whole.
    pub(super) fn download(target: &Target) -> Target {
        Target {
            path: "/large.txt".to_owned(),
            ..target.clone()
        }
    }

    /// Returns how often the server has ejected an upstream server.
    pub(super) async fn ejections(&self) -> Result<f64> {
        let metrics = self.server.metrics().await?;
        metrics.value("sekisho_upstream_ejections_total")
    }

    pub(super) async fn end(self) -> Result<()> {
        let server = &self.server;
        ensure!(server.pid().is_ok(), "the server ended:\n{}", server.tail());
        self.programs.are_gone().await?;
        server.tell_to_end()?;
        server.ended().await
    }

    fn address(&self) -> Result<SocketAddr> {
        Ok(self.server.serving().context("it serves")?.0)
    }
}

/// Makes a text that shrinks.
fn text(bytes: usize) -> String {
    let mut text: String = (0..bytes / 8)
        .map(|number| format!("{number} texts, "))
        .collect();
    text.truncate(bytes);
    text
}

/// Makes a site whose answers have as many bytes of fields as a document may give them.
fn filled(pages: &Path) -> Value {
    let text = "x".repeat(8000);
    json!({ "root": pages, "response": { "set": {
        "X-Filled": "{host}{client}".repeat(15), "X-A": text, "X-B": text, "X-C": text
    } } })
}

async fn pin(pid: u32, core: &str) -> Result<()> {
    let status = Command::new("taskset")
        .args(["--all-tasks", "--pid", "--cpu-list", core, &pid.to_string()])
        .stdout(Stdio::null())
        .status()
        .await;
    ensure!(
        status.context("taskset, of util-linux")?.success(),
        "taskset"
    );
    Ok(())
}

const SERVER_CORE: &str = "1";
const CLIENT_CORE: &str = "0";
/// Second number of the attackers' addresses.
const ATTACKERS: u8 = 66;
/// All attackers of a kind in one /24.
const PER_PREFIX: usize = 10_000;
const LARGE: u64 = 32 << 20;
const LARGE_TEXT: usize = 4 << 20;
