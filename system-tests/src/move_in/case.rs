//! Cases: a layout, who makes it, and the commands of the documentation that import it.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use sekisho_testkit::RedisServer;
use tokio::time::{Instant, sleep};

use super::commands::{Commands, below};
use super::fill::{By, Filled, Filling, Issued};
use super::old::{Old, Pair};
use super::tools::{DEHYDRATED, Tools, Wanted, run};
use crate::leaf;

/// Layout that is imported.
pub(super) struct Case {
    pub(super) name: &'static str,
    /// Sections of docs/moving.md, and the number of a command in each, from 0 on: each line of
    /// a block of `sh` is one.
    commands: Numbers,
    made: Made,
}

/// Maker of a layout.
#[derive(Clone, Copy, Debug)]
enum Made {
    Certbot,
    Dehydrated,
    Lego,
    Caddy,
    /// This program, with certificates that dehydrated has got
    Filled(Filling),
}

/// Host of a case, and its leaf as the old server shows it.
pub(super) struct Shown {
    pub(super) case: &'static str,
    pub(super) host: String,
    pub(super) leaf: String,
}

impl Case {
    /// Returns the certificates of the case: for two names, for a wildcard, and with RSA.
    fn wanted(&self) -> Vec<Wanted> {
        let domain = format!("{}.example", self.name);
        let all = [
            (
                "shop",
                vec![format!("shop.{domain}"), format!("www.shop.{domain}")],
                false,
            ),
            ("wild", vec![format!("*.wild.{domain}")], false),
            ("rsa", vec![format!("rsa.{domain}")], true),
        ];
        let wanted = all.map(|(kind, names, is_rsa)| Wanted {
            alias: format!("{}-{kind}", self.name),
            names,
            is_rsa,
        });
        let mut wanted = Vec::from(wanted);
        // Only with a module of each DNS provider does Caddy get wildcards.
        wanted.retain(|one| !matches!(self.made, Made::Caddy) || !one.alias.ends_with("-wild"));
        wanted
    }

    /// Lets dehydrated get the certificates of a layout that is filled, in a folder of its own.
    pub(super) async fn issue(&self, tools: &Tools<'_>, filler: &Path) -> Result<()> {
        match self.made {
            Made::Filled(_) => {
                let root = filler.join(self.name);
                tools.dehydrated(&root, &self.wanted()).await
            }
            _ => Ok(()),
        }
    }

    /// Makes the layout below `root`, asks the old server for its names, and imports it into
    /// the store of the configuration in the folder `store`. `filler` is where dehydrated got
    /// the certificates of other layouts.
    pub(super) async fn run(
        &self,
        tools: &Tools<'_>,
        commands: &mut Commands,
        filler: &Path,
        store: &Path,
    ) -> Result<Vec<Shown>> {
        let root = tools.setting.folder.path().join(self.name);
        fs::create_dir(&root)?;
        let wanted = self.wanted();
        let filler = filler.join(self.name);
        let filled = self.make(tools, &root, &filler, &wanted).await?;
        let (shown, old) = self.ask(tools, &root, &filled).await?;
        for (heading, number) in self.commands {
            let command = commands.command(heading, *number);
            let command = command.with_context(|| format!("{heading} has too few commands"))?;
            let redis = filled.redis.as_ref().map(RedisServer::port);
            let text = format!("set -o pipefail; {}", below(command, &root, redis));
            let said = run(&mut tools.shell(&text, &root, store)).await?;
            println!("{}: {}", self.name, said.trim_end());
        }
        if let Some(old) = old {
            old.end().await?;
        }
        Ok(shown)
    }

    /// Makes the layout by its tool, or fills it.
    async fn make(
        &self,
        tools: &Tools<'_>,
        root: &Path,
        filler: &Path,
        wanted: &[Wanted],
    ) -> Result<Filled> {
        let names: Vec<_> = wanted.iter().flat_map(|one| one.names.clone()).collect();
        let files: fn(&Wanted) -> [String; 2] = match self.made {
            Made::Certbot => {
                for one in wanted {
                    tools.certbot(root, one).await?;
                }
                files_of_certbot
            }
            Made::Dehydrated => {
                tools.dehydrated(root, wanted).await?;
                files_of_dehydrated
            }
            Made::Lego => {
                for one in wanted {
                    tools.lego(root, one).await?;
                }
                files_of_lego
            }
            Made::Caddy => {
                let (by, redis) = (By::Caddy, None);
                return Ok(Filled { names, by, redis });
            }
            Made::Filled(filling) => {
                let issued = wanted.iter().map(|one| Issued::read(filler, one));
                return filling.fill(root, &issued.collect::<Result<Vec<_>>>()?);
            }
        };
        let pair = |one: &Wanted| {
            let [chain, key] = files(one).map(|file| root.join(file));
            let names = one.names.clone();
            Pair { names, chain, key }
        };
        let (by, redis) = (By::Nginx(wanted.iter().map(pair).collect()), None);
        Ok(Filled { names, by, redis })
    }

    /// Asks who reads the layout beside us for each name. Returns the server, which serves on.
    async fn ask(
        &self,
        tools: &Tools<'_>,
        root: &Path,
        filled: &Filled,
    ) -> Result<(Vec<Shown>, Option<Old>)> {
        let mut shown = Vec::new();
        let mut add = |name: &str, leaf: String| {
            let (case, host) = (self.name, host_of(name));
            shown.push(Shown { case, host, leaf });
        };
        let old = match &filled.by {
            By::Nginx(pairs) => Old::nginx(root, pairs).await?,
            By::Haproxy(certificates, base) => Old::haproxy(root, base, certificates).await?,
            By::Caddy => Old::caddy(tools, root, &filled.names).await?,
            By::Openssl(chains) => {
                for (names, chain) in chains {
                    let leaf = leaf::read_by_openssl(chain).await?;
                    names.iter().for_each(|name| add(name, leaf.clone()));
                }
                return Ok((shown, None));
            }
        };
        let client = tools.setting.client_of(old.address)?;
        for name in &filled.names {
            let (begun, host) = (Instant::now(), host_of(name));
            let leaf = loop {
                match leaf::shown(&client, &host).await {
                    Ok(leaf) => break leaf,
                    // Caddy may be just ordering it.
                    Err(error) => ensure!(begun.elapsed() < PATIENCE, "old server: {error:#}"),
                }
                sleep(PAUSE).await;
            };
            add(name, leaf);
        }
        Ok((shown, Some(old)))
    }
}

/// Returns chain and key of a lineage.
fn files_of_certbot(wanted: &Wanted) -> [String; 2] {
    let lineage = wanted.names[0].trim_start_matches("*.");
    ["fullchain", "privkey"].map(|half| format!("{LIVE}/{lineage}/{half}.pem"))
}

fn files_of_dehydrated(wanted: &Wanted) -> [String; 2] {
    let alias = &wanted.alias;
    ["fullchain", "privkey"].map(|half| format!("{DEHYDRATED}/certs/{alias}/{half}.pem"))
}

fn files_of_lego(wanted: &Wanted) -> [String; 2] {
    let name = wanted.names[0].replace('*', "_");
    ["crt", "key"].map(|ending| format!("etc/lego/certificates/{name}.{ending}"))
}

/// Returns a host that a name answers for.
fn host_of(name: &str) -> String {
    match name.strip_prefix("*.") {
        Some(domain) => format!("any.{domain}"),
        None => name.to_owned(),
    }
}

/// Commands of a case, each by its section and its number there.
type Numbers = &'static [(&'static str, usize)];

fn case(name: &'static str, commands: Numbers, made: Made) -> Case {
    Case {
        name,
        commands,
        made,
    }
}

fn filled(name: &'static str, commands: Numbers, filling: Filling) -> Case {
    case(name, commands, Made::Filled(filling))
}

/// Returns the cases. Without Caddy's binary, its layout is filled, and nothing is exported.
pub(super) fn all(has_caddy: bool) -> Vec<Case> {
    let caddy: Numbers = &[("From Caddy", 0)];
    let mut cases = vec![
        case(
            CERTBOT,
            &[("Moving in", 0), ("From certbot", 0)],
            Made::Certbot,
        ),
        case("tar", &[("Moving in", 1)], Made::Certbot),
        case("dehydrated", &[("From dehydrated", 0)], Made::Dehydrated),
        case("lego", &[("From lego", 0)], Made::Lego),
        filled("lego5", &[("From lego", 0)], Filling::Lego5),
        filled("acmesh", &[("From acme.sh", 0)], Filling::AcmeSh),
        filled("traefik", &[("From Traefik", 0)], Filling::Traefik),
        filled("haproxy", &[("From HAProxy", 0)], Filling::Haproxy),
        filled("crt-list", &[("From HAProxy", 1)], Filling::CrtList),
        filled("flat", &[("From nginx and Apache", 0)], Filling::Flat),
        filled("list", &[("From nginx and Apache", 1)], Filling::List),
        filled("cpanel", &[("From cPanel", 0)], Filling::Cpanel),
        filled(
            "auto-ssl",
            &[("From lua-resty-auto-ssl", 0)],
            Filling::AutoSsl,
        ),
        filled(
            "resty-acme",
            &[("From lua-resty-acme", 0)],
            Filling::RestyAcme,
        ),
        filled("redis", &[("From Redis of the papers", 0)], Filling::Redis),
    ];
    if has_caddy {
        cases.push(case("caddy", caddy, Made::Caddy));
        cases.push(case("caddy-export", &[("From Caddy", 1)], Made::Caddy));
    } else {
        cases.push(filled("caddy", caddy, Filling::Caddy));
    }
    cases
}

/// Case whose source is watched afterwards.
pub(super) const CERTBOT: &str = "certbot";
/// Folder of certbot's lineages below its root.
const LIVE: &str = "etc/letsencrypt/live";
/// Far more than Caddy needs for its orders.
const PATIENCE: Duration = Duration::from_secs(60);
const PAUSE: Duration = Duration::from_millis(100);
