//! Cases: servers, and how their visitors come.

use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use anyhow::{Result, ensure};

use super::caddy::Caddy;
use super::visits::{Measured, visit};
use crate::acme::{Catalog, Issuance, PAGE, Setting};
use crate::server::Server;

/// Server, and how its visitors come.
pub(super) struct Case {
    /// Beginning of the hosts' names. Each host has a registered domain of its own.
    pub(super) prefix: &'static str,
    pub(super) system: System,
    pub(super) names: usize,
    /// Visitors at once; None for all.
    pub(super) at_once: Option<usize>,
}

/// Servers that are visited.
pub(super) enum System {
    Sekisho,
    /// Two servers on one store, both of which are asked for each host.
    TwoOfSekisho,
    /// Caddy with on-demand TLS, by its binary.
    Caddy(PathBuf),
}

impl Case {
    pub(super) fn label(&self) -> String {
        let system = match self.system {
            System::Sekisho => "sekisho",
            System::TwoOfSekisho => "two servers of sekisho",
            System::Caddy(_) => "Caddy on demand",
        };
        match self.at_once {
            Some(1) => format!("{system}, one after another"),
            Some(at_once) => format!("{system}, {at_once} at once"),
            None => format!("{system}, all at once"),
        }
    }

    pub(super) async fn run(&self, setting: &Setting) -> Result<Measured> {
        match &self.system {
            System::Sekisho => self.run_sekisho(setting, &SERVERS[..1]).await,
            System::TwoOfSekisho => self.run_sekisho(setting, &SERVERS).await,
            System::Caddy(binary) => self.run_caddy(setting, binary).await,
        }
    }

    async fn run_sekisho(&self, setting: &Setting, addresses: &[Ipv4Addr]) -> Result<Measured> {
        let catalog = Catalog::new(setting, self.prefix, self.issuance(setting)).await?;
        catalog.put_hosts("customer", &self.hosts()).await?;
        let mut servers = Vec::new();
        for address in addresses {
            let server = catalog.server(*address)?;
            server.start().await?;
            servers.push(server);
        }
        let measured = self.measure(setting, addresses).await;
        if has_failed(&measured) {
            for tail in servers.iter().map(Server::tail) {
                println!("{tail}");
            }
        }
        // The next case binds the same port.
        for server in &servers {
            server.tell_to_end()?;
            server.ended().await?;
        }
        measured
    }

    async fn run_caddy(&self, setting: &Setting, binary: &Path) -> Result<Measured> {
        let folder = setting.folder.path().join(self.prefix);
        let caddy = Caddy::start(binary, setting, &folder, &self.hosts()).await?;
        let measured = self.measure(setting, &SERVERS[..1]).await;
        if has_failed(&measured) {
            println!("{}", caddy.tail());
        }
        caddy.end().await?;
        measured
    }

    /// Returns the default bounds, unless all come at once: a server then orders for all hosts
    /// at the same time.
    fn issuance(&self, setting: &Setting) -> Issuance {
        let issuance = Issuance::at(setting.pebble.port());
        match self.at_once {
            Some(_) => issuance,
            None => Issuance {
                orders: MOST_ORDERS,
                wait: 60,
                ..issuance
            },
        }
    }

    /// Visits all hosts but the first at these servers, and once more. The first one's visit is
    /// not measured: the server makes its account at the CA then.
    async fn measure(&self, setting: &Setting, servers: &[Ipv4Addr]) -> Result<Measured> {
        let clients = servers.iter().map(|server| {
            let client = setting.client(*server, NET);
            client.map(|client| client.with_length(PAGE.len()))
        });
        let clients = clients.collect::<Result<Vec<_>>>()?;
        let hosts = self.hosts();
        let (warm_up, names) = hosts.split_at(1);
        let warmed_up = visit(&clients, warm_up, 1).await?;
        let errors = &warmed_up.errors;
        ensure!(errors.is_empty(), "the visit before all: {errors:?}");
        let before = setting.pebble.orders();
        let at_once = self.at_once.unwrap_or(names.len() * clients.len());
        let first = visit(&clients, names, at_once).await?;
        let second = visit(&clients, names, 1).await?;
        Ok(Measured {
            names: names.len(),
            orders: setting.pebble.orders() - before,
            first,
            second,
        })
    }

    /// Returns the names of its hosts, and one more in front.
    fn hosts(&self) -> Vec<String> {
        let name = |number| format!("{}{number}.example", self.prefix);
        (0..=self.names).map(name).collect()
    }
}

fn has_failed(measured: &Result<Measured>) -> bool {
    !measured
        .as_ref()
        .is_ok_and(|measured| measured.error().is_none())
}

/// Addresses of servers. The CA validates all names at the first one.
const SERVERS: [Ipv4Addr; 2] = [Ipv4Addr::LOCALHOST, Ipv4Addr::new(127, 9, 0, 2)];
/// Second number of the visitors' addresses.
const NET: u8 = 1;
/// As many as may be configured: a tenant alone has half of them.
const MOST_ORDERS: usize = 1024;
