//! The configuration file: what was written, and what was checked.
//!
//! `docs/configuration.md` repeats what the fields here document.

mod check;
mod error;
mod locate;
mod own;
mod raw;
mod store;
mod trust;
mod value;

use std::collections::HashMap;
use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sekisho_certs::HostName;
use sekisho_certs::seal::KeySource;
use sekisho_stores::redis::RedisUrl;

use crate::site::{AllowedRoots, Site};

pub use error::ConfigError;
pub use store::{StoreUrl, TokenSource};
pub use value::Size;

/// A checked configuration, with every default applied and every path absolute.
#[derive(Clone, Debug)]
pub struct Config {
    /// The file that it was read from.
    pub file: PathBuf,
    /// `[listen]`: where connections are accepted.
    pub listen: Listen,
    /// `[default]`: whose credential is sent without SNI.
    pub defaults: Defaults,
    /// `[store]`: where hosts and credentials live.
    pub store: StoreUrl,
    /// `[keys] master`: what unseals private keys; `master.key` beside an
    /// embedded store by default, else none.
    pub keys: Option<KeySource>,
    /// `[cache]`: what is kept in memory.
    pub cache: Cache,
    /// `[cache] redis`: where copies of what the catalog holds are kept, for all
    /// servers on it; only before a catalog, and no Cluster.
    pub level: Option<Box<RedisUrl>>,
    /// `[site]`: for a host without a site of its own; 404 if not given.
    pub site: Site,
    /// `[sites] allow`: the folders that roots in host records lie in; `/srv`
    /// and `/var/www` by default.
    pub allowed_roots: AllowedRoots,
    /// `[tickets] key_file`: ticket keys for a store that has no place for
    /// them.
    pub tickets: Option<PathBuf>,
    /// `[server]`: bounds.
    pub limits: Limits,
}

impl Config {
    /// Reads the file, or the first of `./sekisho.toml` and
    /// `/etc/sekisho/sekisho.toml` that exists. One that was not named must
    /// belong to root or the caller, and nobody else may be able to write it.
    ///
    /// # Errors
    /// Names file, line and key, what is wrong and what to write.
    pub fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        match file {
            Some(file) => Self::read(file),
            None => Self::search(DEFAULT_FILES.map(Path::new).as_slice()),
        }
    }

    /// Checks text as if it stood in `file`; relative paths are taken below
    /// the folder of that file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let file = std::path::absolute(file).map_err(|error| ConfigError::read(file, error))?;
        let invalid = |problem| locate::invalid(text, &file, problem);
        let raw = locate::deserialize(text).map_err(invalid)?;
        check::check(raw, &file).map_err(invalid)
    }

    fn search(files: &[&Path]) -> Result<Self, ConfigError> {
        for file in files {
            match fs::exists(file) {
                Ok(true) => {
                    let failed = |error| ConfigError::read(file, error);
                    if let Err(problem) = trust::check(file).map_err(failed)? {
                        return Err(ConfigError::Untrusted((*file).to_owned(), problem));
                    }
                    return Self::read(file);
                }
                Ok(false) => {}
                Err(error) => return Err(ConfigError::read(file, error)),
            }
        }
        Err(ConfigError::NotFound(
            files.iter().map(|file| (*file).to_owned()).collect(),
        ))
    }

    fn read(file: &Path) -> Result<Self, ConfigError> {
        let failed = |error| ConfigError::read(file, error);
        let size = fs::metadata(file).map_err(failed)?.len();
        if size > MAX_FILE {
            let text =
                format!("{size} bytes are too many for a configuration (at most {MAX_FILE})");
            return Err(failed(io::Error::other(text)));
        }
        Self::parse(&fs::read_to_string(file).map_err(failed)?, file)
    }
}

/// `[listen]`.
#[derive(Clone, Debug)]
pub struct Listen {
    /// `https`: addresses for TLS; at least one.
    pub https: Vec<SocketAddr>,
    /// `http`: addresses whose requests are redirected to HTTPS; none by
    /// default.
    pub http: Vec<SocketAddr>,
    /// `public_port`: the port of HTTPS in redirects from plain HTTP. By
    /// default the port that the first address of `https` is bound to.
    pub public_port: Option<u16>,
    /// `admin`: health and metrics over plain HTTP; off by default. Beyond
    /// loopback only with `admin_token`.
    pub admin: Option<SocketAddr>,
    /// `admin_token`: where the bearer token for the admin listener is read,
    /// `file:PATH` or `env:NAME`.
    pub admin_token: Option<TokenSource>,
}

/// `[default]`: the host whose credential a client without SNI is sent.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    by_address: HashMap<SocketAddr, HostName>,
    any: Option<HostName>,
}

impl Defaults {
    /// The default of a listening address as it stands in `[listen] https`,
    /// else the one of `"*"`.
    #[must_use]
    pub fn of(&self, local: SocketAddr) -> Option<&HostName> {
        self.by_address.get(&local).or(self.any.as_ref())
    }
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cache {
    /// `memory`: bytes for hosts with their credentials; 64 MiB by default, 1
    /// MiB to 1 TiB.
    pub memory: usize,
    /// `fresh`: how long an entry of a store without a change feed is served
    /// before it is read again; 60 s by default, 1 s to 1 day.
    pub fresh: Duration,
    /// `absent`: the same for a name that was not there; 5 s by default, 100 ms
    /// to 1 hour.
    pub absent: Duration,
    /// `files`: bytes for small files; 16 MiB by default, 1 MiB to 1 TiB.
    pub files: usize,
    /// Copies on disk for a start while the store is down; none if `disk` is
    /// `"off"`, or for a store on this machine.
    pub disk: Option<Disk>,
}

/// Where copies of what a store elsewhere said are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// `disk`: the file; `disk-cache.db` beside the configuration by default.
    pub path: PathBuf,
    /// `disk_size`: its bytes, its log's included; 256 MiB by default, 4 MiB to
    /// 1 TiB.
    pub size: usize,
}

/// `[server]`: nothing waits longer, and nothing grows further.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// `workers`: threads that serve connections; one per core by default, 1 to
    /// 1,024.
    pub workers: usize,
    /// `connections`: open at once over all listeners, and at most one more for
    /// each worker and address; 65,536 by default, 1 to 10,000,000. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// `handshake_timeout`: from accepting to the end of the TLS handshake,
    /// look-up included; also for the look-up of another host that a request
    /// names; 10 s by default, 100 ms to 5 min.
    pub handshake: Duration,
    /// `header_timeout`: for a request's whole head; 15 s by default, 100 ms to
    /// 5 min.
    pub head: Duration,
    /// `idle_timeout`: between two requests; 60 s by default, 1 s to 1 hour.
    pub idle: Duration,
    /// `body_timeout`: without any progress on a request's or an answer's
    /// body; 30 s by default, 100 ms to 1 hour.
    pub body: Duration,
    /// `drain_timeout`: from SIGTERM to the end; 30 s by default, 0 s to 1
    /// hour.
    pub drain: Duration,
    /// `absent_per_prefix`: look-ups without result that the clients of one
    /// prefix (/24 or /56) may cause per minute; 600 by default, 1 to
    /// 1,000,000,000. Over it, their uncached names wait, or are refused.
    pub prefix_absent_budget: usize,
    /// `loads`: store loads in flight at once; 256 by default, 1 to 65,536.
    pub loads: usize,
    /// `loads_per_prefix`: of these, for the clients of one prefix while others
    /// wait; 64 by default, 1 to `loads`.
    pub prefix_in_flight: usize,
    /// `loads_waiting`: look-ups that wait for a load's permit; 4,096 by
    /// default, 0 to 1,000,000. The prefix with most of them makes room.
    pub loads_waiting: usize,
}

const DEFAULT_FILES: [&str; 2] = ["sekisho.toml", "/etc/sekisho/sekisho.toml"];
/// A megabyte is ten thousand lines; more is another file by mistake.
const MAX_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
