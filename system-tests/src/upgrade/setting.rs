//! Server with its hosts, files, upstream and configuration.

use std::cell::RefCell;
use std::fs;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::{Output, Stdio};
use std::rc::Rc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use sekisho_bench::load::client::Client;
use sekisho_bench::tls::{Group, Offer, Trust, Version};
use sekisho_testkit::services::free_ports;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::time::{Instant, sleep, timeout};

use super::admin;
use super::content::Content;
use super::field::Field;
use super::load::{CLIENT_DEADLINE, SOCKETS};
use super::plan::Configuration;
use super::program::Program;
use super::upstream;
use crate::hosting::{Host, Hosting};
use crate::server::Server;

pub(super) struct Setting {
    pub(super) server: Server,
    pub(super) content: Content,
    pub(super) program: Program,
    configuration: RefCell<Configuration>,
    hosting: Hosting,
}

impl Setting {
    /// Starts a server.
    pub(super) async fn new(binary: &Path) -> Result<Self> {
        let hosting = Hosting::new(binary).await?;
        let (content, pages) = (Content::new(), hosting.pages());
        fs::write(pages.join("index.html"), PAGE)?;
        fs::write(pages.join(&MEDIUM[1..]), content.medium())?;
        fs::write(pages.join(&LARGE[1..]), content.large())?;
        let upstream = upstream::start(content.clone())?;
        let host = |name: &str, site: Value| Host {
            name: name.to_owned(),
            tenant: "tenant".to_owned(),
            site,
            also: Vec::new(),
        };
        hosting
            .put(&[
                host(MARKER, Value::Null),
                host(FILES, json!({ "root": pages })),
                host(APP, json!({ "upstream": format!("http://{upstream}") })),
            ])
            .await?;
        let program = Program::new(hosting.binary(), &hosting.folder().join("bin"))?;
        let server = Server::new(program.path(), hosting.folder().to_owned());
        let setting = Self {
            server,
            content,
            program,
            configuration: RefCell::new(Configuration::new(free_ports())),
            hosting,
        };
        setting.configure(setting.configuration())?;
        setting.server.start().await?;
        Ok(setting)
    }

    /// Makes what the clients share, once the server answers with its first configuration.
    pub(super) async fn field(&self) -> Result<Rc<Field>> {
        let field = Rc::new(Field::new(SOCKETS)?);
        let client = self.client(1)?;
        let visit = super::transfers::visit(&field, &client).await;
        visit.map_err(|failure| anyhow::anyhow!("the first visit: {}", failure.kind()))?;
        Ok(field)
    }

    pub(super) fn configuration(&self) -> Configuration {
        self.configuration.borrow().clone()
    }

    /// Writes the configuration, which counts from the next hand-over on.
    pub(super) fn configure(&self, configuration: Configuration) -> Result<()> {
        let text = configuration.text(&self.hosting.pages());
        fs::write(self.hosting.folder().join("sekisho.toml"), text)?;
        self.configuration.replace(configuration);
        Ok(())
    }

    /// Makes a client of HTTP/1.1 with addresses in 127.NET.0.0/24.
    pub(super) fn client(&self, net: u8) -> Result<Client> {
        let offer = Offer {
            version: Version::Tls13,
            group: Group::X25519,
            trust: Trust::Authority(self.hosting.root()),
            resume: None,
        };
        let client = Client::new(self.address(0), &offer, CLIENT_DEADLINE)?;
        Ok(client.sources(250).in_net(net))
    }

    /// Returns a listening address.
    pub(super) fn address(&self, number: usize) -> SocketAddr {
        let port = self.configuration.borrow().ports[number];
        SocketAddr::from((Ipv4Addr::LOCALHOST, port))
    }

    /// Signals the process that was started first.
    pub(super) fn signal(&self, signal: Signal) -> Result<()> {
        let pid = i32::try_from(self.server.pid()?)
            .ok()
            .and_then(Pid::from_raw);
        Ok(kill_process(pid.context("a number")?, signal)?)
    }

    /// Runs a command of the binary on this configuration.
    pub(super) async fn command(&self, args: &[&str]) -> Result<Output> {
        let running = Command::new(self.hosting.binary())
            .args(args)
            .args(["--config", "sekisho.toml"])
            .current_dir(self.hosting.folder())
            .stdin(Stdio::null())
            .kill_on_drop(true)
            .output();
        let output = timeout(COMMAND, running).await;
        Ok(output.with_context(|| format!("sekisho {} does not end", args.join(" ")))??)
    }

    /// Returns the answer of the admin listener.
    pub(super) async fn ask(&self, path: &str) -> Result<String> {
        admin::ask(&self.hosting.folder().join("admin.sock"), path).await
    }

    /// Returns the last warnings that all processes have logged, and their lines about
    /// hand-overs.
    pub(super) fn log(&self) -> String {
        let logs = (0..).map(|number| self.hosting.folder().join(format!("log.{number}")));
        let texts = logs.map_while(|log| fs::read_to_string(log).ok());
        let text = texts.collect::<String>();
        let is_shown = |line: &&str| {
            let shown = ["WARN", "ERROR", "sekisho::handover"];
            // Each start tells of the limits and rights of this process.
            shown.iter().any(|text| line.contains(text)) && !line.contains("sekisho::process")
        };
        let lines: Vec<_> = text.lines().filter(is_shown).collect();
        lines[lines.len().saturating_sub(SHOWN)..].join("\n")
    }

    /// Ends the server as an operator does. No process of it may be left.
    pub(super) async fn end(&self) -> Result<()> {
        self.server.tell_to_end()?;
        self.server.ended().await?;
        let begun = Instant::now();
        loop {
            let left = self.program.processes()?;
            if left.is_empty() {
                return Ok(());
            }
            ensure!(begun.elapsed() < LEFT, "processes are left: {left:?}");
            sleep(POLL).await;
        }
    }
}

/// Host whose answer is the configuration's.
pub(super) const MARKER: &str = "marker.test";
/// Host with files.
pub(super) const FILES: &str = "files.test";
/// Host with an upstream.
pub(super) const APP: &str = "app.test";
pub(super) const PAGE: &str = "a page that each client compares\n";
pub(super) const MEDIUM: &str = "/medium.bin";
pub(super) const LARGE: &str = "/large.bin";
/// Longest run of a command: a program that hangs is given up after 30 s.
const COMMAND: Duration = Duration::from_secs(60);
/// Longest life of a process after the first one has ended.
const LEFT: Duration = Duration::from_secs(5);
/// Lines of the log that are shown.
const SHOWN: usize = 60;
const POLL: Duration = Duration::from_millis(20);
