//! Parser of Redis URLs.

use std::collections::BTreeMap;
use std::path::Path;

use percent_encoding::percent_decode_str;
use redis::RedisConnectionInfo;

use super::{Kind, Node, RedisUrl, TlsFiles};
use crate::redis::keys::Keys;

type Result<T> = std::result::Result<T, String>;

pub(super) fn parse(url: &str, base: &Path) -> Result<RedisUrl> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
        let schemes = SCHEMES.join("://, ");
        return Err(format!("a Redis store begins with {schemes}://"));
    }
    let (rest, query) = rest.split_once('?').unwrap_or((rest, ""));
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    // Else a piece of the password would be taken for something else, and
    // shown.
    if path.contains('@') || query.contains('@') {
        return Err(
            "'@' behind the address: write @ as %40, and in a password / as %2F and ? as %3F"
                .into(),
        );
    }
    let (login, nodes) = match authority.rsplit_once('@') {
        None => (None, authority),
        Some((login, nodes)) => {
            let (user, password) = login.split_once(':').ok_or(
                "in front of '@' stands a user with a password: user:password@, or :password@ alone",
            )?;
            (Some((decoded(user)?, decoded(password)?)), nodes)
        }
    };
    let mut query = Query::parse(scheme, query)?;
    let (kind, path) = kind(scheme, path, &mut query)?;
    let nodes = self::nodes(nodes, &kind)?;
    let shown: Vec<_> = nodes.iter().map(Node::to_string).collect();
    let user = login.as_ref().map(|(user, _)| format!("{user}:***@"));
    let shown = format!("{scheme}://{}{}", user.unwrap_or_default(), shown.join(","));
    let (shown, database) = match &kind {
        Kind::Cluster => (shown, 0),
        Kind::Sentinel { master, .. } => (format!("{shown}/{master}"), database(path)?),
        Kind::Single => (shown, database(path)?),
    };
    Ok(RedisUrl {
        shown: match kind {
            Kind::Cluster => shown,
            _ => format!("{shown}/{database}"),
        },
        nodes,
        login: self::login(login)?.set_db(database),
        tls: tls(scheme, base, &mut query)?,
        keys: match query.pair("chain", "key")? {
            None => Keys::default(),
            Some((chain, key)) => Keys::new(&chain, &key)?,
        },
        kind,
    })
}

fn login(login: Option<(String, String)>) -> Result<RedisConnectionInfo> {
    let info = RedisConnectionInfo::default().set_skip_set_lib_name();
    match login {
        None => Ok(info),
        Some((_, password)) if password.is_empty() => Err("the password is empty".into()),
        Some((user, password)) if user.is_empty() => Ok(info.set_password(password)),
        Some((user, password)) => Ok(info.set_username(user).set_password(password)),
    }
}

/// Nothing of the text is repeated: it may be a piece of a password.
fn nodes(text: &str, kind: &Kind) -> Result<Vec<Node>> {
    let default = match kind {
        Kind::Single | Kind::Cluster => 6379,
        Kind::Sentinel { .. } => 26379,
    };
    let nodes: Option<Vec<_>> = text
        .split(',')
        .map(|node| self::node(node, default))
        .collect();
    let nodes = nodes.ok_or(
        "an address is HOST or HOST:PORT, an IPv6 one in brackets; in a password : / ? # @ , must \
         be written as %3A %2F %3F %23 %40 %2C",
    )?;
    if nodes.len() > 1 && matches!(kind, Kind::Single) {
        return Err(
            "several addresses are for redis+sentinel:// and redis+cluster://; this has one".into(),
        );
    }
    Ok(nodes)
}

fn node(text: &str, default: u16) -> Option<Node> {
    let (host, port) = match text.strip_prefix('[') {
        Some(address) => {
            let (host, port) = address.split_once(']')?;
            host.parse::<std::net::Ipv6Addr>().ok()?;
            (
                host,
                port.strip_prefix(':').or(port.is_empty().then_some("")),
            )
        }
        None => match text.split_once(':') {
            None => (text, Some("")),
            Some((host, port)) => (host, Some(port)),
        },
    };
    let port = match port? {
        "" => default,
        port => port.parse().ok().filter(|&port| port != 0)?,
    };
    let allowed = |byte: u8| byte.is_ascii_alphanumeric() || b".-_:".contains(&byte);
    (!host.is_empty() && host.bytes().all(allowed)).then(|| Node {
        host: host.to_owned(),
        port,
    })
}

/// Takes the path apart; gives what stands for the database.
fn kind<'a>(scheme: &str, path: &'a str, query: &mut Query) -> Result<(Kind, &'a str)> {
    match scheme {
        "redis+cluster" if !["", "0"].contains(&path) => {
            Err("a Cluster has no databases: nothing stands behind the address".into())
        }
        "redis+cluster" => Ok((Kind::Cluster, "")),
        "redis+sentinel" => {
            let (master, database) = path.split_once('/').unwrap_or((path, ""));
            if master.is_empty() {
                return Err("behind the sentinels stands the master's name, as in \
                     redis+sentinel://10.0.0.1,10.0.0.2/mymaster/0"
                    .into());
            }
            let (user, password) = (query.take("sentinel_user"), query.take("sentinel_password"));
            let is_given = user.is_some() || password.is_some();
            let given = (user.unwrap_or_default(), password.unwrap_or_default());
            let kind = Kind::Sentinel {
                master: decoded(master)?,
                login: login(is_given.then_some(given))?,
            };
            Ok((kind, database))
        }
        _ => Ok((Kind::Single, path)),
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

fn tls(scheme: &str, base: &Path, query: &mut Query) -> Result<Option<TlsFiles>> {
    let wanted = match query.take("tls").as_deref() {
        None => scheme == "rediss",
        Some("0") => false,
        Some("1") => true,
        Some(_) => return Err("tls is 1 or 0".into()),
    };
    let roots = query.take("ca");
    let client = query.pair("client_cert", "client_key")?;
    if !wanted && (roots.is_some() || client.is_some()) {
        return Err("ca, client_cert and client_key are for TLS: rediss://, or tls=1".into());
    }
    let paths = client.iter().flat_map(|(cert, key)| [cert, key]);
    if roots.iter().chain(paths).any(String::is_empty) {
        return Err("ca, client_cert and client_key are paths".into());
    }
    Ok(wanted.then(|| TlsFiles {
        roots: roots.map(|path| base.join(path)),
        client: client.map(|(cert, key)| (base.join(cert), base.join(key))),
    }))
}

/// The parameters behind `?`.
struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(scheme: &str, text: &str) -> Result<Self> {
        let mut query = BTreeMap::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            let known = PARAMETERS.iter().find(|(known, _)| *known == name);
            let Some((_, schemes)) = known else {
                let known = PARAMETERS.map(|(known, _)| known).join(", ");
                return Err(format!("{name:?} is unknown; known behind ? are {known}"));
            };
            if !schemes.contains(&scheme) {
                let schemes = schemes.join(":// and ");
                return Err(format!("{name} is for {schemes}://, not for {scheme}://"));
            }
            if query.insert(name.to_owned(), decoded(value)?).is_some() {
                return Err(format!("{name} stands there twice"));
            }
        }
        Ok(Self(query))
    }

    fn take(&mut self, name: &str) -> Option<String> {
        self.0.remove(name)
    }

    /// Takes two parameters that are given both, or neither.
    fn pair(&mut self, one: &str, other: &str) -> Result<Option<(String, String)>> {
        match (self.take(one), self.take(other)) {
            (None, None) => Ok(None),
            (Some(one), Some(other)) => Ok(Some((one, other))),
            _ => Err(format!(
                "{one} and {other} belong together: give both, or neither"
            )),
        }
    }
}

fn decoded(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "what is behind a % is no UTF-8".to_owned())?;
    Ok(decoded.into_owned())
}

pub(super) const SCHEMES: [&str; 4] = ["redis", "rediss", "redis+sentinel", "redis+cluster"];
/// Each parameter with the schemes that take it. A single server is asked over
/// TLS by `rediss`.
const PARAMETERS: [(&str, &[&str]); 8] = [
    ("chain", &SCHEMES),
    ("key", &SCHEMES),
    ("tls", &["redis+sentinel", "redis+cluster"]),
    ("ca", &SCHEMES),
    ("client_cert", &SCHEMES),
    ("client_key", &SCHEMES),
    ("sentinel_user", &["redis+sentinel"]),
    ("sentinel_password", &["redis+sentinel"]),
];
