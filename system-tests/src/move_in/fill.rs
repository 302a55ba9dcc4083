//! Layouts that are filled with certificates of the CA of the run, as docs/moving.md describes
//! them: those of tools that no registry has, and of servers.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use data_encoding::BASE64;
use sekisho_testkit::RedisServer;
use serde_json::{Value, json};

use super::old::{CADDY, Pair};
use super::tools::{DEHYDRATED, Wanted};

/// Layout that this program fills: files, or keys in Redis.
#[derive(Clone, Copy, Debug)]
pub(super) enum Filling {
    AcmeSh,
    /// Of version 5: any id names the files
    Lego5,
    Caddy,
    Traefik,
    Haproxy,
    CrtList,
    Flat,
    List,
    Cpanel,
    AutoSsl,
    RestyAcme,
    Redis,
}

/// Certificate that the CA of the run issued, with its key, in PEM.
pub(super) struct Issued {
    wanted: Wanted,
    /// Leaf and issuers.
    chain: String,
    leaf: String,
    issuers: String,
    key: String,
}

/// Layout that was filled.
pub(super) struct Filled {
    /// Names that the old server serves, wildcards among them.
    pub(super) names: Vec<String>,
    pub(super) by: By,
    /// Redis that holds it, if one does.
    pub(super) redis: Option<RedisServer>,
}

/// Reader of the layout with which ours is compared.
pub(super) enum By {
    Nginx(Vec<Pair>),
    /// Arguments of HAProxy's `bind`, and where the paths of a crt-list begin.
    Haproxy(String, PathBuf),
    /// Caddy, which keeps it.
    Caddy,
    /// openssl: names, and the chain that was found for them.
    Openssl(Vec<(Vec<String>, String)>),
}

impl Issued {
    /// Reads what dehydrated has got.
    pub(super) fn read(root: &Path, wanted: &Wanted) -> Result<Self> {
        let folder = root.join(DEHYDRATED).join("certs").join(&wanted.alias);
        let read = |file: &str| {
            let file = folder.join(file);
            fs::read_to_string(&file).with_context(|| file.display().to_string())
        };
        Ok(Self {
            wanted: wanted.clone(),
            chain: read("fullchain.pem")?,
            leaf: read("cert.pem")?,
            issuers: read("chain.pem")?,
            key: read("privkey.pem")?,
        })
    }

    fn names(&self) -> &[String] {
        &self.wanted.names
    }

    /// Returns the name that it is named after.
    fn name(&self) -> &str {
        &self.wanted.names[0]
    }

    fn is_wildcard(&self) -> bool {
        self.name().starts_with('*')
    }
}

impl Filling {
    /// Fills the layout below `root`.
    pub(super) fn fill(self, root: &Path, issued: &[Issued]) -> Result<Filled> {
        let names = issued.iter().flat_map(Issued::names).cloned().collect();
        let by = match self {
            Self::AcmeSh => acme_sh(&root.join(".acme.sh"), issued),
            Self::Lego5 => lego_5(&root.join("etc/lego/certificates"), issued),
            Self::Caddy => caddy(&root.join(CADDY), issued),
            Self::Traefik => traefik(&root.join("etc/traefik/acme.json"), issued),
            Self::Haproxy => haproxy(&root.join("etc/haproxy"), issued),
            Self::CrtList => return crt_list(&root.join("etc/haproxy"), issued),
            Self::Flat => flat(&root.join("etc/nginx/pairs"), issued),
            Self::List => list(&root.join("etc/nginx"), issued),
            Self::Cpanel => cpanel(&root.join("var/cpanel/ssl/domain_tls"), issued),
            Self::AutoSsl | Self::RestyAcme | Self::Redis => return self.fill_redis(issued),
        };
        Ok(Filled {
            names,
            by: by?,
            redis: None,
        })
    }

    /// Fills a Redis. The documents of OpenResty's modules are for names alone.
    fn fill_redis(self, issued: &[Issued]) -> Result<Filled> {
        let redis = RedisServer::start();
        let mut read = Vec::new();
        for one in issued {
            let (name, chain, key) = (one.name(), &one.chain, &one.key);
            let kind = if one.wanted.is_rsa { "rsa" } else { "ecc" };
            let (at, field, value) = match self {
                Self::AutoSsl => (
                    format!("{name}:latest"),
                    "fullchain_pem",
                    json!({"fullchain_pem": chain, "privkey_pem": key, "cert_pem": one.leaf,
                        "expiry": 1_900_000_000}),
                ),
                Self::RestyAcme => (
                    format!("domain:{kind}:{name}"),
                    "cert",
                    json!({"domain": name, "pkey": key, "cert": chain, "type": kind,
                        "updated": 1_700_000_000}),
                ),
                _ => (format!("{name}.crt"), "", Value::Null),
            };
            if field.is_empty() {
                redis.set(&at, chain);
                redis.set(&format!("{name}.key"), key);
                read.push((one.names().to_vec(), redis.cli(&["get", &at])));
            } else if !one.is_wildcard() {
                redis.set(&at, &value.to_string());
                let stored: Value = serde_json::from_str(&redis.cli(&["get", &at]))?;
                let chain = stored[field].as_str().context("a chain")?;
                read.push((one.names().to_vec(), chain.to_owned()));
            }
        }
        Ok(Filled {
            names: read.iter().flat_map(|(names, _)| names.clone()).collect(),
            by: By::Openssl(read),
            redis: Some(redis),
        })
    }
}

/// Writes a file, and the folders above it.
fn put(path: &Path, text: &str) -> Result<PathBuf> {
    let folder = path.parent().context("a file lies in a folder")?;
    fs::create_dir_all(folder)?;
    fs::write(path, text).with_context(|| path.display().to_string())?;
    Ok(path.to_owned())
}

/// Writes the two halves of a pair.
fn put_pair(one: &Issued, chain: &Path, key: &Path) -> Result<Pair> {
    Ok(Pair {
        names: one.names().to_vec(),
        chain: put(chain, &one.chain)?,
        key: put(key, &one.key)?,
    })
}

fn acme_sh(home: &Path, issued: &[Issued]) -> Result<By> {
    put(
        &home.join("account.conf"),
        "ACCOUNT_EMAIL='admin@shop.example'\n",
    )?;
    let pairs = issued.iter().map(|one| {
        let ecc = if one.wanted.is_rsa { "" } else { "_ecc" };
        let (name, folder) = (one.name(), home.join(format!("{}{ecc}", one.name())));
        put(&folder.join(format!("{name}.cer")), &one.leaf)?;
        put(&folder.join("ca.cer"), &one.issuers)?;
        put(
            &folder.join(format!("{name}.conf")),
            &format!("Le_Domain='{name}'\n"),
        )?;
        let key = folder.join(format!("{name}.key"));
        put_pair(one, &folder.join("fullchain.cer"), &key)
    });
    pairs.collect::<Result<_>>().map(By::Nginx)
}

fn lego_5(folder: &Path, issued: &[Issued]) -> Result<By> {
    let pairs = issued.iter().zip(1..).map(|(one, number)| {
        let file = |ending: &str| folder.join(format!("customer-{number}.{ending}"));
        put(&file("issuer.crt"), &one.issuers)?;
        let document = json!({"id": format!("customer-{number}"), "domains": one.names()});
        put(&file("json"), &document.to_string())?;
        put_pair(one, &file("crt"), &file("key"))
    });
    pairs.collect::<Result<_>>().map(By::Nginx)
}

fn caddy(storage: &Path, issued: &[Issued]) -> Result<By> {
    let certificates = storage.join("certificates/acme-v02.api.letsencrypt.org-directory");
    let pairs = issued.iter().map(|one| {
        let name = one.name().replace('*', "wildcard_");
        let file = |ending: &str| certificates.join(&name).join(format!("{name}.{ending}"));
        put(&file("json"), &json!({"sans": one.names()}).to_string())?;
        put_pair(one, &file("crt"), &file("key"))
    });
    pairs.collect::<Result<_>>().map(By::Nginx)
}

fn traefik(file: &Path, issued: &[Issued]) -> Result<By> {
    let certificates = issued.iter().map(|one| {
        let (main, sans) = one.names().split_first().context("a name")?;
        let [chain, key] = [&one.chain, &one.key].map(|half| BASE64.encode(half.as_bytes()));
        let domain = json!({"main": main, "sans": sans});
        Ok(json!({"domain": domain, "certificate": chain, "key": key, "Store": "default"}))
    });
    let certificates = certificates.collect::<Result<Vec<_>>>()?;
    let account = json!({"Email": "admin@shop.example", "KeyType": "4096"});
    let resolver = json!({"Account": account, "Certificates": certificates});
    let file = put(
        file,
        &serde_json::to_string_pretty(&json!({"letsencrypt": resolver}))?,
    )?;
    let stored: Value = serde_json::from_slice(&fs::read(file)?)?;
    let stored = stored["letsencrypt"]["Certificates"].as_array();
    let chains = stored
        .context("a list")?
        .iter()
        .zip(issued)
        .map(|(stored, one)| {
            let chain = stored["certificate"].as_str().context("a chain")?;
            let chain = String::from_utf8(BASE64.decode(chain.as_bytes())?)?;
            Ok((one.names().to_vec(), chain))
        });
    chains.collect::<Result<_>>().map(By::Openssl)
}

/// Writes bundles whose key comes last, beside a file with another one's, or first, or has a file
/// of its own.
fn haproxy(folder: &Path, issued: &[Issued]) -> Result<By> {
    let certs = folder.join("certs");
    for (one, number) in issued.iter().zip(0..) {
        let (file, chain, key) = (certs.join(bundle(one)), &one.chain, &one.key);
        let beside = certs.join(format!("{}.key", bundle(one)));
        match number % 3 {
            0 => {
                let other = &issued[(number + 1) % issued.len()];
                put(&beside, &other.key)?;
                put(&file, &format!("{chain}{key}"))?
            }
            1 => put(&file, &format!("{key}{chain}"))?,
            _ => {
                put(&beside, key)?;
                put(&file, chain)?
            }
        };
    }
    Ok(By::Haproxy(format!("crt {}", certs.display()), certs))
}

/// Writes the same, and a list that serves one name of each alone.
fn crt_list(folder: &Path, issued: &[Issued]) -> Result<Filled> {
    haproxy(folder, issued)?;
    let line = |one: &Issued| format!("{} [alpn h2,http/1.1] {}\n", bundle(one), one.name());
    let lines: String = issued.iter().map(line).collect();
    let list = put(
        &folder.join("crt-list.txt"),
        &format!("# a line a bundle\n{lines}"),
    )?;
    Ok(Filled {
        names: issued.iter().map(|one| one.name().to_owned()).collect(),
        by: By::Haproxy(format!("crt-list {}", list.display()), folder.join("certs")),
        redis: None,
    })
}

/// Returns the name of a bundle.
fn bundle(one: &Issued) -> String {
    format!("{}.pem", one.wanted.alias)
}

fn flat(folder: &Path, issued: &[Issued]) -> Result<By> {
    let pairs = issued.iter().map(|one| {
        let file = |ending: &str| folder.join(one.name().replace('*', "_") + ending);
        put_pair(one, &file(".crt"), &file(".key"))
    });
    pairs.collect::<Result<_>>().map(By::Nginx)
}

fn list(folder: &Path, issued: &[Issued]) -> Result<By> {
    let mut lines = "chain,key,hosts\n".to_owned();
    let mut pairs = Vec::new();
    for one in issued {
        let [chain, key] = ["crt", "key"].map(|end| format!("ssl/{}.{end}", one.wanted.alias));
        pairs.push(put_pair(one, &folder.join(&chain), &folder.join(&key))?);
        lines += &format!("{chain},{key},{}\n", one.names().join(","));
    }
    put(&folder.join("pairs.csv"), &lines)?;
    Ok(By::Nginx(pairs))
}

fn cpanel(folder: &Path, issued: &[Issued]) -> Result<By> {
    let mut arguments = Vec::new();
    for one in issued {
        let folder = folder.join(one.name());
        put(&folder.join("certificates"), &one.chain)?;
        let combined = put(
            &folder.join("combined"),
            &format!("{}{}", one.key, one.chain),
        )?;
        arguments.push(format!("crt {}", combined.display()));
    }
    Ok(By::Haproxy(arguments.join(" "), folder.to_owned()))
}
