//! The configuration file: what was written, and what was checked.

mod check;
mod error;
mod keys;
mod locate;
mod own;
mod raw;
mod token;
mod trust;
mod value;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sekisho_certs::seal::KeySource;
use sekisho_server::admin;
use sekisho_server::site::{AllowedRoots, Site};
use sekisho_server::{Defaults, Limits, Settings};
use sekisho_stores::Url;
use sekisho_stores::redis::RedisUrl;

pub(crate) use error::ConfigError;
pub(crate) use token::TokenSource;
pub(crate) use trust::Exposure;
pub(crate) use value::Size;

/// A checked configuration, with every default applied and every path absolute.
/// Defaults and ranges stand in `keys.rs`.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file that it was read from.
    pub(crate) file: PathBuf,
    /// `[listen]`: where connections are accepted.
    pub(crate) listen: Listen,
    /// `[default]`: whose credential is sent without SNI.
    pub(crate) defaults: Defaults,
    /// `[store]`: where hosts and credentials live.
    pub(crate) store: Store,
    /// `[keys] master`: what unseals private keys.
    pub(crate) keys: Option<KeySource>,
    /// `[cache]`: what is kept in memory.
    pub(crate) cache: Cache,
    /// `[cache] redis`: where copies of what the catalog holds are kept, for all
    /// servers on it; only before a catalog, and no Cluster. Not used before
    /// `sqlite:`.
    pub(crate) redis_cache: Option<Box<RedisUrl>>,
    /// `[site]`: for a host without a site of its own; 404 if not given.
    pub(crate) site: Site,
    /// `[sites] allow`: the folders that roots in host records lie in.
    pub(crate) allowed_roots: AllowedRoots,
    /// `[tickets] key_file`: ticket keys for a store that has no place for
    /// them.
    pub(crate) tickets: Option<PathBuf>,
    /// `[server]`: bounds.
    pub(crate) limits: Limits,
}

impl Config {
    /// Reads the file, or the first of `./sekisho.toml` and
    /// `/etc/sekisho/sekisho.toml` that exists. One that was not named must
    /// belong to root or the caller, and nobody else may be able to write it.
    ///
    /// # Errors
    /// Names file, line and key, what is wrong and what to write.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
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
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let file = std::path::absolute(file).map_err(|error| ConfigError::read(file, error))?;
        let invalid = |problem| locate::invalid(text, &file, problem);
        let raw = locate::deserialize(text).map_err(invalid)?;
        let mut config = check::check(raw, &file).map_err(invalid)?;
        config.hide(config.secret_variables());
        Ok(config)
    }

    /// Lists how others may change the file, or read a password in it.
    ///
    /// # Errors
    /// If the file can't be looked at.
    pub(crate) fn exposures(&self) -> Result<Vec<Exposure>, ConfigError> {
        // A URL shows three stars for its password.
        let redis = self.redis_cache.as_ref().map(ToString::to_string);
        let urls = [Some(self.store.url.to_string()), redis];
        let has_password = urls.iter().flatten().any(|url| url.contains("***"));
        trust::exposures(&self.file, has_password)
            .map_err(|error| ConfigError::read(&self.file, error))
    }

    /// Returns what the server is built with.
    pub(crate) fn settings(&self) -> Settings {
        Settings {
            https: self.listen.https.clone(),
            http: self.listen.http.clone(),
            public_port: self.listen.public_port,
            defaults: self.defaults.clone(),
            limits: self.limits,
        }
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
pub(crate) struct Listen {
    /// `https`: addresses for TLS; at least one.
    pub(crate) https: Vec<SocketAddr>,
    /// `http`: addresses whose requests are redirected to HTTPS.
    pub(crate) http: Vec<SocketAddr>,
    /// `public_port`: the port of HTTPS in redirects from plain HTTP. By
    /// default the port that the first address of `https` is bound to.
    pub(crate) public_port: Option<u16>,
    /// `admin`: health and metrics over plain HTTP; off by default. Beyond
    /// loopback only with `admin_token`.
    pub(crate) admin: Option<admin::Address>,
    /// `admin_token`: where the bearer token for the admin listener is read,
    /// `file:PATH` or `env:NAME`.
    pub(crate) admin_token: Option<TokenSource>,
}

/// `[store]`.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// `url`: which store, and where.
    pub(crate) url: Url,
    /// `token`: where the bearer token of an endpoint is read.
    pub(crate) token: Option<TokenSource>,
    /// `ca`: a file of the certificates that alone are believed.
    pub(crate) ca: Option<PathBuf>,
}

impl From<Url> for Store {
    fn from(url: Url) -> Self {
        let (token, ca) = (None, None);
        Self { url, token, ca }
    }
}

/// `[cache]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cache {
    /// `memory`: bytes for hosts with their credentials.
    pub(crate) memory: usize,
    /// `fresh`: how long an entry of a store without a change feed is served
    /// before it is read again.
    pub(crate) fresh: Duration,
    /// `absent`: how long a name that was not there is not looked up again.
    pub(crate) absent: Duration,
    /// `files`: bytes for small files.
    pub(crate) files: usize,
    /// Copies on disk for a start while the store is down; none if `disk` is
    /// `"off"`, or for a store on this machine.
    pub(crate) disk: Option<Disk>,
}

/// Where copies of what a store elsewhere said are kept.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// `disk`: the file.
    pub(crate) path: PathBuf,
    /// `disk_size`: its bytes, its log's included.
    pub(crate) size: usize,
}

const DEFAULT_FILES: [&str; 2] = ["sekisho.toml", "/etc/sekisho/sekisho.toml"];
/// A megabyte is ten thousand lines; more is another file by mistake.
const MAX_FILE: u64 = 1 << 20;

#[cfg(test)]
mod tests;
