//! From the text of a URL to its parts.

use std::collections::BTreeMap;
use std::path::Path;

use percent_encoding::percent_decode_str;
use zeroize::Zeroizing;

use super::{Kind, Login, Node, RedisUrl, TlsFiles};
use crate::redis::keys::Keys;

type Result<T> = std::result::Result<T, String>;

pub(super) fn parse(url: &str, base: &Path) -> Result<RedisUrl> {
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    if !SCHEMES.contains(&scheme) {
        return Err(format!(
            "a Redis store begins with {}://",
            SCHEMES.join("://, ")
        ));
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
        None => (Login::default(), authority),
        Some((login, nodes)) => (self::login(login)?, nodes),
    };
    let mut query = Query::parse(query)?;
    let (kind, database) = kind(scheme, path, &mut query)?;
    let url = RedisUrl {
        nodes: self::nodes(nodes, &kind)?,
        login,
        database,
        tls: tls(scheme, base, &mut query)?,
        keys: keys(&mut query)?,
        kind,
    };
    query.end()?;
    Ok(url)
}

fn login(text: &str) -> Result<Login> {
    let (user, password) = text.split_once(':').ok_or(
        "in front of '@' stands a user with a password: user:password@, or :password@ alone",
    )?;
    login_of(decoded(user)?, decoded(password)?)
}

fn login_of(user: String, password: String) -> Result<Login> {
    if password.is_empty() {
        return Err("the password is empty".into());
    }
    Ok(Login {
        user: (!user.is_empty()).then_some(user),
        password: Some(Zeroizing::new(password)),
    })
}

/// Nothing of the text is repeated: it may be a piece of a password.
fn nodes(text: &str, kind: &Kind) -> Result<Vec<Node>> {
    let default = match kind {
        Kind::Single | Kind::Cluster => 6379,
        Kind::Sentinel { .. } => 26379,
    };
    let nodes: Vec<_> = text
        .split(',')
        .map(|node| {
            self::node(node, default).ok_or(
                "an address is HOST or HOST:PORT, an IPv6 one in brackets; in a password \
                 : / ? # @ , must be written as %3A %2F %3F %23 %40 %2C",
            )
        })
        .collect::<std::result::Result<_, _>>()?;
    if nodes.len() > 1 && *kind == Kind::Single {
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

fn kind(scheme: &str, path: &str, query: &mut Query) -> Result<(Kind, u32)> {
    let database = |text: &str| match text {
        "" => Ok(0),
        text => text
            .parse()
            .map_err(|_| "behind the address stands /DATABASE, a number".to_owned()),
    };
    match scheme {
        "redis+cluster" => match path {
            "" | "0" => Ok((Kind::Cluster, 0)),
            _ => Err("a Cluster has no databases: nothing stands behind the address".into()),
        },
        "redis+sentinel" => {
            let (master, number) = path.split_once('/').unwrap_or((path, ""));
            let master = decoded(master)?;
            if master.is_empty() {
                return Err("behind the sentinels stands the master's name, as in \
                     redis+sentinel://10.0.0.1,10.0.0.2/mymaster/0"
                    .into());
            }
            let (user, password) = (query.take("sentinel_user"), query.take("sentinel_password"));
            let login = match (user, password) {
                (None, None) => Login::default(),
                (user, password) => {
                    login_of(user.unwrap_or_default(), password.unwrap_or_default())?
                }
            };
            Ok((Kind::Sentinel { master, login }, database(number)?))
        }
        _ => Ok((Kind::Single, database(path)?)),
    }
}

fn tls(scheme: &str, base: &Path, query: &mut Query) -> Result<Option<TlsFiles>> {
    let wanted = match (scheme, query.take("tls").as_deref()) {
        ("rediss", None) => true,
        ("redis", None) => false,
        ("redis" | "rediss", Some(_)) => {
            return Err("TLS to a single server is asked for by rediss://, not by tls=".into());
        }
        (_, None | Some("0")) => false,
        (_, Some("1")) => true,
        (_, Some(_)) => return Err("tls is 1 or 0".into()),
    };
    let mut file = |name: &str| match query.take(name) {
        Some(path) if path.is_empty() => Err(format!("{name} is a path")),
        path => Ok(path.map(|path| base.join(path))),
    };
    let (roots, cert, key) = (file("ca")?, file("client_cert")?, file("client_key")?);
    let client = match (cert, key) {
        (None, None) => None,
        (Some(cert), Some(key)) => Some((cert, key)),
        _ => return Err("client_cert and client_key belong together".into()),
    };
    match wanted {
        true => Ok(Some(TlsFiles { roots, client })),
        false if roots.is_some() || client.is_some() => {
            Err("ca, client_cert and client_key are for TLS: rediss://, or tls=1".into())
        }
        false => Ok(None),
    }
}

fn keys(query: &mut Query) -> Result<Keys> {
    match (query.take("chain"), query.take("key")) {
        (None, None) => Ok(Keys::default()),
        (Some(chain), Some(key)) => Keys::new(&chain, &key),
        _ => Err("chain and key are given both, or neither".into()),
    }
}

/// The parameters behind `?`.
struct Query(BTreeMap<String, String>);

impl Query {
    fn parse(text: &str) -> Result<Self> {
        let mut query = BTreeMap::new();
        for part in text.split('&').filter(|part| !part.is_empty()) {
            let (name, value) = part.split_once('=').unwrap_or((part, ""));
            if !PARAMETERS.contains(&name) {
                let known = PARAMETERS.join(", ");
                return Err(format!("{name:?} is unknown; known behind ? are {known}"));
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

    /// Nothing may be left.
    fn end(self) -> Result<()> {
        match self.0.into_keys().next() {
            None => Ok(()),
            Some(name) => Err(format!("{name} is for redis+sentinel://")),
        }
    }
}

fn decoded(text: &str) -> Result<String> {
    let decoded = percent_decode_str(text).decode_utf8();
    let decoded = decoded.map_err(|_| "what is behind a % is no UTF-8".to_owned())?;
    Ok(decoded.into_owned())
}

pub(super) const SCHEMES: [&str; 4] = ["redis", "rediss", "redis+sentinel", "redis+cluster"];
const PARAMETERS: [&str; 8] = [
    "chain",
    "key",
    "tls",
    "ca",
    "client_cert",
    "client_key",
    "sentinel_user",
    "sentinel_password",
];
