//! The URL of a Redis store or cache, taken apart.

#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use redis::RedisConnectionInfo;
use url::Host;

use super::keys::Keys;
use crate::announced::Announced;
use crate::place::{StoreServer, path_below};
use crate::url_parts::{ENCODE, Parameters, Parts, decoded};

type Result<T> = std::result::Result<T, String>;

/// Where a Redis store is, and how to read it. Neither `Debug` nor `Display`
/// shows a password.
#[derive(Clone)]
pub struct RedisUrl {
    pub(crate) kind: Kind,
    /// At least one.
    pub(super) nodes: Vec<Node>,
    /// User, password and number of the database.
    pub(super) login: RedisConnectionInfo,
    pub(super) tls: Option<TlsFiles>,
    pub(crate) keys: Keys,
    /// Nodes that the servers lead to.
    pub(super) announced: Announced,
    /// The URL without its parameters and with `***` for the password.
    shown: String,
}

impl RedisUrl {
    /// The file of the private key that a server asks for over TLS.
    #[must_use]
    pub fn key_file(&self) -> Option<&Path> {
        let (_, key) = self.tls.as_ref()?.client.as_ref()?;
        Some(key)
    }

    /// Returns the servers that the URL names: of sentinels and of a Cluster not
    /// those that they lead to.
    #[must_use]
    pub fn servers(&self) -> Vec<StoreServer> {
        let nodes = self.nodes.iter();
        nodes.map(|node| StoreServer::Port(node.port)).collect()
    }

    /// Returns the ports of the nodes that sentinels and a Cluster lead to.
    #[must_use]
    pub fn announced(&self) -> &Announced {
        &self.announced
    }

    /// Parses `redis://`, `rediss://`, `redis+sentinel://` and
    /// `redis+cluster://`; relative paths in it begin at `base`. Its form is
    /// in `docs/stores.md`.
    ///
    /// # Errors
    /// Says what is wrong. The text repeats nothing that may be a password.
    pub fn parse(url: &str, base: &Path) -> Result<Self> {
        let parts = Parts::split(url, &SCHEMES)?;
        let mut query = Parameters::parse(parts.query, PARAMETERS)?;
        let (servers, path) = parts.place.split_once('/').unwrap_or((parts.place, ""));
        let (kind, database) = kind(parts.scheme, path, &mut query)?;
        let nodes = nodes(servers, &kind)?;
        let shown: Vec<_> = nodes.iter().map(Node::to_string).collect();
        let shown = format!("{}://{}{}", parts.scheme, parts.user(), shown.join(","));
        let credentials = parts.login.map(|login| {
            let (user, password) = login.split_once(':').ok_or(
                "in front of '@' stands a user with a password: user:password@, or :password@ alone",
            )?;
            Ok::<_, String>((decoded(user)?, decoded(password)?))
        });
        let login = login(credentials.transpose()?)?.set_db(database);
        let tls = tls(parts.scheme, base, &mut query)?;
        let keys = match pair(&mut query, "chain", "key")? {
            None => Keys::default(),
            Some((chain, key)) => Keys::new(&chain, &key)?,
        };
        if !query.rest().is_empty() {
            return Err(format!(
                "tls is for redis+sentinel:// and redis+cluster://, sentinel_user and \
                 sentinel_password are for redis+sentinel://, not for {}://",
                parts.scheme
            ));
        }
        Ok(Self {
            shown: match &kind {
                Kind::Single => format!("{shown}/{database}"),
                Kind::Sentinel { master, .. } => format!("{shown}/{master}/{database}"),
                Kind::Cluster => shown,
            },
            nodes,
            login,
            tls,
            keys,
            kind,
            announced: Announced::default(),
        })
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown)
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?} {:?}", self.keys, self.tls)
    }
}

/// How the server that is read is found.
#[derive(Clone)]
pub(crate) enum Kind {
    /// The one node.
    Single,
    /// The nodes are sentinels, which take that login and know the master.
    Sentinel {
        master: String,
        login: RedisConnectionInfo,
    },
    /// Each key has its own; the nodes are some of them.
    Cluster,
}

/// An address: a host name or an IP address, and a port.
#[derive(Clone, Debug)]
pub(super) struct Node {
    pub(super) host: String,
    pub(super) port: u16,
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { host, port } = self;
        match host.contains(':') {
            true => write!(f, "[{host}]:{port}"),
            false => write!(f, "{host}:{port}"),
        }
    }
}

/// PEM files for TLS.
#[derive(Clone, Debug)]
pub(super) struct TlsFiles {
    /// Authorities to trust; without a file, those of the system.
    pub(super) roots: Option<PathBuf>,
    /// Our own certificate and key, for a server that asks for one.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}

/// Takes two parameters that are given both, or neither.
fn pair(query: &mut Parameters<'_>, one: &str, other: &str) -> Result<Option<(String, String)>> {
    match (query.take(one)?, query.take(other)?) {
        (None, None) => Ok(None),
        (Some(one), Some(other)) => Ok(Some((one, other))),
        _ => Err(format!(
            "{one} and {other} belong together: give both, or neither"
        )),
    }
}

/// Takes the path apart; gives the number of the database as well.
fn kind(scheme: &str, path: &str, query: &mut Parameters<'_>) -> Result<(Kind, i64)> {
    match scheme {
        "redis+cluster" if !["", "0"].contains(&path) => {
            Err("a Cluster has no databases: nothing stands behind the address".into())
        }
        "redis+cluster" => Ok((Kind::Cluster, 0)),
        "redis+sentinel" => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err("behind the sentinels stands the master's name, as in \
                     redis+sentinel://10.0.0.1,10.0.0.2/mymaster/0"
                    .into());
            }
            let credentials = match (
                query.take("sentinel_user")?,
                query.take("sentinel_password")?,
            ) {
                (None, None) => None,
                (user, password) => Some((user.unwrap_or_default(), password.unwrap_or_default())),
            };
            let kind = Kind::Sentinel {
                master: decoded(master)?,
                login: login(credentials)?,
            };
            Ok((kind, self::database(database)?))
        }
        _ => Ok((Kind::Single, database(path)?)),
    }
}

fn database(text: &str) -> Result<i64> {
    let number = match text {
        "" => Some(0),
        text => text.parse::<u32>().ok(),
    };
    let number = number.ok_or("behind the address stands /DATABASE, a number")?;
    Ok(number.into())
}

fn login(credentials: Option<(String, String)>) -> Result<RedisConnectionInfo> {
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    match credentials {
        None => Ok(info),
        Some((_, password)) if password.is_empty() => Err("the password is empty".into()),
        Some((user, password)) if user.is_empty() => Ok(info.set_password(password)),
        Some((user, password)) => Ok(info.set_username(user).set_password(password)),
    }
}

/// Nothing of the text is repeated: it may be a piece of a password.
fn nodes(text: &str, kind: &Kind) -> Result<Vec<Node>> {
    let port = match kind {
        Kind::Single | Kind::Cluster => 6379,
        Kind::Sentinel { .. } => 26379,
    };
    let nodes: Option<Vec<_>> = text.split(',').map(|text| node(text, port)).collect();
    let nodes = nodes.ok_or_else(|| {
        format!("an address is HOST or HOST:PORT, an IPv6 one in brackets; {ENCODE}")
    })?;
    if nodes.len() > 1 && matches!(kind, Kind::Single) {
        return Err(
            "several addresses are for redis+sentinel:// and redis+cluster://; this has one".into(),
        );
    }
    Ok(nodes)
}

fn node(text: &str, default: u16) -> Option<Node> {
    let url = url::Url::parse(&format!("redis://{text}")).ok()?;
    let host = match url.host()? {
        Host::Ipv6(address) => address.to_string(),
        host => host.to_string(),
    };
    let port = url.port().unwrap_or(default);
    (port != 0).then_some(Node { host, port })
}

fn tls(scheme: &str, base: &Path, query: &mut Parameters<'_>) -> Result<Option<TlsFiles>> {
    // A single server is asked over TLS by `rediss`.
    let is_wanted = match scheme {
        "redis" | "rediss" => scheme == "rediss",
        _ => query.flag("tls")?.unwrap_or(false),
    };
    let path = |path: String| path_below(base, &path);
    let client = pair(query, "client_cert", "client_key")?;
    let client = client.map(|(cert, key)| Ok::<_, String>((path(cert)?, path(key)?)));
    let files = TlsFiles {
        roots: query.take("ca")?.map(path).transpose()?,
        client: client.transpose()?,
    };
    if !is_wanted && (files.roots.is_some() || files.client.is_some()) {
        return Err("ca, client_cert and client_key are for TLS: rediss://, or tls=1".into());
    }
    Ok(is_wanted.then_some(files))
}

const SCHEMES: [&str; 4] = ["redis", "rediss", "redis+sentinel", "redis+cluster"];
const PARAMETERS: &str = "chain, key, ca, client_cert, client_key, tls, sentinel_user, \
                          sentinel_password";
