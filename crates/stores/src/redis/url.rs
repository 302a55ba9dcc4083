//! The URL of a Redis store, taken apart.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use zeroize::Zeroizing;

use super::keys::Keys;

/// Where a Redis store is, and how to read it. Neither `Debug` nor `Display`
/// shows a password.
#[derive(Clone, PartialEq, Eq)]
pub struct RedisUrl {
    pub(crate) kind: Kind,
    /// At least one.
    pub(super) nodes: Vec<Node>,
    pub(super) login: Login,
    pub(super) database: u32,
    pub(super) tls: Option<TlsFiles>,
    pub(crate) keys: Keys,
}

impl RedisUrl {
    /// The file of the private key that a server asks for over TLS.
    #[must_use]
    pub fn key_file(&self) -> Option<&Path> {
        let (_, key) = self.tls.as_ref()?.client.as_ref()?;
        Some(key)
    }

    /// Parses `redis://`, `rediss://`, `redis+sentinel://` and
    /// `redis+cluster://`; relative paths in it begin at `base`. Its form is
    /// in `docs/configuration.md`.
    ///
    /// # Errors
    /// Says what is wrong. The text repeats nothing that may be a password.
    pub fn parse(url: &str, base: &Path) -> Result<Self, String> {
        parse::parse(url, base)
    }

    /// Whether a scheme is one of these.
    #[must_use]
    pub fn is_scheme(scheme: &str) -> bool {
        parse::SCHEMES.contains(&scheme)
    }
}

impl fmt::Display for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (scheme, path) = match &self.kind {
            Kind::Single if self.tls.is_some() => ("rediss", String::new()),
            Kind::Single => ("redis", String::new()),
            Kind::Sentinel { master, .. } => ("redis+sentinel", format!("/{master}")),
            Kind::Cluster => ("redis+cluster", String::new()),
        };
        let Login { user, password } = &self.login;
        write!(f, "{scheme}://{}", user.as_deref().unwrap_or_default())?;
        if password.is_some() {
            f.write_str(":***@")?;
        }
        let nodes: Vec<_> = self.nodes.iter().map(Node::to_string).collect();
        write!(f, "{}{path}", nodes.join(","))?;
        match &self.kind {
            Kind::Cluster => Ok(()),
            _ => write!(f, "/{}", self.database),
        }
    }
}

impl fmt::Debug for RedisUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?} {:?}", self.keys, self.tls)
    }
}

/// How the server that is read is found.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The one node.
    Single,
    /// The nodes are sentinels and know it.
    Sentinel { master: String, login: Login },
    /// Each key has its own; the nodes are some of them.
    Cluster,
}

/// User and password; without either, no login is sent.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct Login {
    pub(super) user: Option<String>,
    password: Option<Zeroizing<String>>,
}

impl Login {
    pub(super) fn password(&self) -> Option<&str> {
        self.password.as_deref().map(String::as_str)
    }
}

/// An address: a host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
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
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TlsFiles {
    /// Authorities to trust; without a file, those of the system.
    pub(super) roots: Option<PathBuf>,
    /// Our own certificate and key, for a server that asks for one.
    pub(super) client: Option<(PathBuf, PathBuf)>,
}
