//! The URL of a Redis store or cache, taken apart.

mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::path::{Path, PathBuf};

use redis::RedisConnectionInfo;

use super::keys::Keys;

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

    /// Parses `redis://`, `rediss://`, `redis+sentinel://` and
    /// `redis+cluster://`; relative paths in it begin at `base`. Its form is
    /// in `docs/stores.md`.
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
