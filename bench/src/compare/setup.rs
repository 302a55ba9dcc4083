//! From a case to a server that can be started.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use super::Options;
use super::nginx::{Certificates, Nginx};
use super::rows::{Case, Loaded, Row, Setup};
use super::sekisho::{Sekisho, Store};
use super::server::{Launch, free_address};
use super::workspace::Workspace;
use crate::fixtures::{Folder, host_name};

/// Where and with what everything happens.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) options: &'a Options,
    pub(crate) workspace: &'a Workspace,
}

impl Place<'_> {
    /// The file for what one side of a case writes.
    pub(crate) fn log(&self, name: &str, side: &str) -> PathBuf {
        self.workspace.log(&format!("{name}-{side}.log"))
    }
}

/// Writes the configuration; `preload` overrides how many hosts nginx has.
pub(crate) fn launch(
    place: Place<'_>,
    row: &Row,
    case: &Case,
    name: &str,
    preload: Option<usize>,
) -> Result<Launch> {
    let hosts = row.hosts.count(place.options.quick);
    let frame = Frame {
        place,
        row,
        hosts,
        fixture: place.workspace.fixture(row.key, hosts),
        site: place.workspace.site(),
        scratch: place.workspace.scratch(name)?,
        log: place.log(name, "server"),
        address: free_address()?,
    };
    match case.setup {
        Setup::Nginx { loaded, file_cache } => frame.nginx(loaded, file_cache, preload),
        Setup::Sekisho { store, memory } => frame.sekisho(store, memory),
    }
}

/// What both servers are given.
struct Frame<'a> {
    place: Place<'a>,
    row: &'a Row,
    hosts: usize,
    fixture: PathBuf,
    site: PathBuf,
    scratch: PathBuf,
    log: PathBuf,
    address: SocketAddr,
}

impl Frame<'_> {
    fn nginx(self, loaded: Loaded, file_cache: bool, preload: Option<usize>) -> Result<Launch> {
        let hosts = match loaded {
            Loaded::Hundred => 100,
            Loaded::All => self.hosts,
            Loaded::ByVariable => 1,
        };
        let hosts = preload.unwrap_or(hosts);
        let certificates = match loaded {
            Loaded::ByVariable => Certificates::Variable,
            Loaded::Hundred | Loaded::All => Certificates::Preloaded(hosts),
        };
        let config = Nginx {
            fixture: Folder(&self.fixture),
            certificates,
            site: &self.site,
            scratch: &self.scratch,
            address: self.address,
            file_cache,
        };
        let text = config.config();
        let prefix = self.scratch.display().to_string();
        let arguments = ["-e", "stderr", "-p", &prefix, "-c"].map(str::to_owned);
        let program = self.place.options.nginx.clone();
        let bound = START_BOUND + PRELOAD_BOUND * u32::try_from(hosts)?;
        self.launch(program, arguments.to_vec(), &text, bound)
    }

    fn sekisho(self, store: Store, memory: &str) -> Result<Launch> {
        let config = Sekisho {
            fixture: Folder(&self.fixture),
            store,
            memory,
            site: &self.site,
            catalog: &self.place.workspace.catalog(self.row.key, self.hosts),
            address: self.address,
        };
        let text = config.config();
        let arguments = ["serve", "--config"].map(str::to_owned);
        let program = self.place.options.sekisho.clone();
        self.launch(program, arguments.to_vec(), &text, START_BOUND)
    }

    /// The last argument is the file that the text goes to.
    fn launch(
        self,
        program: PathBuf,
        mut arguments: Vec<String>,
        text: &str,
        bound: Duration,
    ) -> Result<Launch> {
        let config = self.scratch.join("server.conf");
        fs::write(&config, text)?;
        arguments.push(config.display().to_string());
        Ok(Launch {
            program,
            arguments,
            address: self.address,
            core: self.place.options.server_core,
            log: self.log,
            authority: Folder(&self.fixture).root(),
            first_host: host_name(0),
            version: self.row.version,
            bound,
        })
    }
}

const START_BOUND: Duration = Duration::from_secs(20);
/// nginx takes 1 ms for each host.
const PRELOAD_BOUND: Duration = Duration::from_millis(4);
