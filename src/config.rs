//! The configuration file: reading, checking and defaults.

mod acme;
mod check;
mod digest;
mod effective;
mod error;
mod gone;
mod hook;
mod keys;
mod listen;
mod locate;
mod name_server;
mod own;
mod problems;
mod raw;
mod read;
mod secret;
mod site;
mod trust;
mod wording;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use sekisho_certs::Secret;
use sekisho_certs::seal::KeySource;
use sekisho_issuance::settings::SettingError;
use sekisho_server::network::Networks;
use sekisho_server::site::{Allowed, NamedFields, Site};
use sekisho_server::{Defaults, Limits, Settings, access_log, admin};
use sekisho_stores::Url;
use sekisho_stores::redis::RedisUrl;

pub(crate) use acme::Acme;
pub(crate) use effective::{Entry, Origin, Section};
pub(crate) use error::ConfigError;
pub(crate) use hook::Hook;
pub(crate) use secret::SecretSource;
pub(crate) use sekisho_server::value::Size;
pub(crate) use trust::Exposure;

use locate::Problem;
use problems::Problems;

/// Checked configuration, with every default applied and every path absolute.
/// `keys.rs` has the defaults and ranges.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// The file that the configuration was read from.
    pub(crate) file: PathBuf,
    /// The text of the file, which may have passwords in URLs.
    pub(crate) text: Secret,
    /// `[listen]`: addresses that accept connections.
    pub(crate) listen: Listen,
    /// `[default]`: default hosts, for clients without SNI.
    pub(crate) defaults: Defaults,
    /// `[store]`: the store of hosts and credentials.
    pub(crate) store: Store,
    /// `[keys] master`: source of the master keys, which seal private keys.
    pub(crate) keys: Option<KeySource>,
    /// `[cache]`: memory caches and the disk cache.
    pub(crate) cache: Cache,
    /// `[cache] redis`: Redis cache of catalog records, which all servers on
    /// the catalog share. Only for a catalog, and without Redis Cluster. Not
    /// used for `sqlite:`.
    pub(crate) redis_cache: Option<Box<RedisUrl>>,
    /// `[site]`: site of hosts without their own; 404 by default.
    pub(crate) site: Site,
    /// `[sites] allow`: folders, sockets and networks that sites in host records
    /// may name.
    pub(crate) allowed: Allowed,
    /// `[sites] tenant_field` and `certificate_field`: fields that only the server sets
    /// towards upstreams.
    pub(crate) named_fields: NamedFields,
    /// Name servers that resolve the names of upstreams; if empty, the system's.
    pub(crate) name_servers: Vec<SocketAddr>,
    /// `[tickets] key`: file of ticket keys for a store that can't hold them.
    pub(crate) tickets: Option<PathBuf>,
    /// `[log]`: the access log; none by default.
    pub(crate) access_log: Option<access_log::Settings>,
    /// `[acme]`: certificates from CAs.
    pub(crate) acme: Option<Acme>,
    /// `[hook]`: the script that chooses what handshakes get; none by default.
    pub(crate) hook: Option<Hook>,
    /// `[server]`: limits.
    pub(crate) limits: Limits,
    /// `[server] handover_timeout`: how long a process that has handed over serves the
    /// connections that it has.
    pub(crate) handover: Duration,
}

impl Config {
    /// Reads the file, or the first of `./sekisho.toml` and
    /// `/etc/sekisho/sekisho.toml` that exists. A file that was not named must
    /// belong to root or the caller, and others must not be able to write it.
    ///
    /// # Errors
    /// Names file, line and key of each problem, what is wrong and what to write.
    pub(crate) fn load(file: Option<&Path>) -> Result<Self, ConfigError> {
        match file {
            Some(file) => Self::read(file),
            None => Self::search(DEFAULT_FILES.map(Path::new).as_slice()),
        }
    }

    /// Checks text as the content of `file`; relative paths lie below the
    /// folder of that file.
    ///
    /// # Errors
    /// As [`Config::load`].
    pub(crate) fn parse(text: &str, file: &Path) -> Result<Self, ConfigError> {
        let file = std::path::absolute(file).map_err(|error| ConfigError::read(file, error))?;
        let checked =
            read::read(text).and_then(|(raw, problems)| check::check(raw, &file, problems));
        let invalid = |problems: Problems| locate::invalid(text, &file, problems.found());
        let mut config = checked.map_err(invalid)?;
        config.hide(config.secret_variables());
        config.text = Secret::new(text.into());
        Ok(config)
    }

    /// Makes a configuration of the admin listener's keys alone, from a file with mistakes
    /// elsewhere; none if they are wrong, too.
    pub(crate) fn of_listener(file: &Path) -> Option<Self> {
        let text = fs::read_to_string(file).ok()?;
        let admin = read::listener(&text);
        let rest = "[store]\nurl = \"sqlite:hosts.db\"\n[keys]\nmaster = \"file:master.key\"\n";
        let text = format!("[listen]\nhttps = [\"127.0.0.1:0\"]\n{admin}{rest}");
        Self::parse(&text, file).ok()
    }

    /// Lists how others may change the file or the script of `[hook]`, or read a
    /// password in the file.
    ///
    /// # Errors
    /// If the file's metadata can't be read.
    pub(crate) fn exposures(&self) -> Result<Vec<Exposure>, ConfigError> {
        // A URL shows three stars for its password.
        let redis = self.redis_cache.as_ref().map(ToString::to_string);
        let databases = self.hook.iter().flat_map(|hook| hook.sql.values());
        let databases = databases.map(ToString::to_string);
        let mut urls = databases.chain([self.store.url.to_string()]).chain(redis);
        let has_password = urls.any(|url| url.contains("***"));
        let mut exposures = trust::exposures(&self.file, has_password)
            .map_err(|error| ConfigError::read(&self.file, error))?;
        let script = self.hook.as_ref().map(|hook| &hook.script);
        exposures.extend(script.and_then(|script| trust::script(script)));
        Ok(exposures)
    }

    /// Reads the secrets of `[acme]`, and returns what an issuer works with; none
    /// without the section.
    ///
    /// # Errors
    /// Names file, line and key of a secret that can't be used.
    pub(crate) fn issuance(
        &self,
    ) -> Result<Option<sekisho_issuance::settings::Settings>, ConfigError> {
        let hidden = self.secret_variables();
        let settings = self.acme.as_ref().map(|acme| acme.with_secrets(&hidden));
        settings.transpose().map_err(|error| self.located(error))
    }

    /// Finds the line of a setting of `[acme]` that can't be used. The file is read
    /// again: its text is needed for nothing else.
    pub(crate) fn located(&self, error: SettingError) -> ConfigError {
        let text = fs::read_to_string(&self.file).unwrap_or_default();
        let problem = Problem::below("acme", &error.key, error.why);
        locate::invalid(&text, &self.file, vec![problem])
    }

    /// Returns the settings of the server, with so many connections to upstreams.
    pub(crate) fn settings(&self, upstreams: usize) -> Settings {
        Settings {
            https: self.listen.https.clone(),
            http: self.listen.http.clone(),
            plain: self.listen.plain,
            public_port: self.listen.public_port,
            proxies: self.listen.proxy.clone(),
            trusted: self.listen.trusted.clone(),
            defaults: self.defaults.clone(),
            limits: self.limits,
            name_servers: self.name_servers.clone(),
            upstreams,
            bodies: HELD_BODIES,
        }
    }

    /// Returns the bytes of `[cache] memory` that are kept for what the script of
    /// `[hook]` makes: an eighth, or none without a script.
    pub(crate) fn hook_memory(&self) -> usize {
        self.hook.as_ref().map_or(0, |_| self.cache.memory / 8)
    }

    /// Returns the bytes that the caches in memory and the states of a script may
    /// take.
    pub(crate) fn memory(&self) -> usize {
        let scripts = self.hook.as_ref().map_or(0, |hook| {
            self.limits.workers.saturating_mul(hook.memory) + Hook::CACHE
        });
        self.cache.memory + self.cache.files + scripts
    }

    fn search(files: &[&Path]) -> Result<Self, ConfigError> {
        for file in files {
            let failed = |error| ConfigError::read(file, error);
            if !fs::exists(file).map_err(failed)? {
                continue;
            }
            return match trust::check(file).map_err(failed)? {
                Some(problem) => Err(ConfigError::Untrusted((*file).to_owned(), problem)),
                None => Self::read(file),
            };
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
    /// `http`: addresses for plain HTTP, whose requests are redirected to HTTPS.
    pub(crate) http: Vec<SocketAddr>,
    /// `plain`: requests to `http` for hosts whose site says so are answered from it.
    pub(crate) plain: bool,
    /// `public_port`: the port of HTTPS in redirects from plain HTTP. By
    /// default the port that the first address of `https` is bound to.
    pub(crate) public_port: Option<u16>,
    /// `admin`: health and metrics over plain HTTP; off by default. Beyond
    /// loopback only with `admin_token`.
    pub(crate) admin: Option<admin::Address>,
    /// `admin_token`: source of the admin listener's bearer token, `file:PATH`
    /// or `env:NAME`.
    pub(crate) admin_token: Option<SecretSource>,
    /// `trusted`: networks whose `X-Forwarded-For`, `X-Forwarded-Proto`,
    /// `X-Forwarded-Host`, `Forwarded` and `X-Request-Id` are believed.
    pub(crate) trusted: Networks,
    /// `proxy`: networks that speak the PROXY protocol to `https` and `http`.
    pub(crate) proxy: Networks,
}

/// `[store]`.
#[derive(Clone, Debug)]
pub(crate) struct Store {
    /// `url`: kind and address of the store.
    pub(crate) url: Url,
    /// `token`: source of an endpoint's bearer token.
    pub(crate) token: Option<SecretSource>,
    /// `ca`: file of the only root certificates to trust.
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
    /// `fresh`: how long a record is served before it is read again, while no change feed
    /// vouches for it.
    pub(crate) fresh: Duration,
    /// `absent`: how long an absence is believed without a new read, in the same case.
    pub(crate) absent: Duration,
    /// `files`: bytes for small files.
    pub(crate) files: usize,
    /// Disk cache, for a start while the store is down. None if `disk` is
    /// `"off"`, or for a store on this machine.
    pub(crate) disk: Option<Disk>,
}

/// Disk cache of a remote store's records.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Disk {
    /// `disk`: the file.
    pub(crate) path: PathBuf,
    /// `disk_size`: bytes of the file and its log.
    pub(crate) size: usize,
}

const DEFAULT_FILES: [&str; 2] = ["sekisho.toml", "/etc/sekisho/sekisho.toml"];
/// Bytes of the largest configuration. 1 MiB is some ten thousand lines; a
/// larger file was named by mistake.
const MAX_FILE: u64 = 1 << 20;

/// Bytes of bodies that connections of HTTP/2 may hold together: 21 whose uploads nobody
/// takes, or some 1,800 answers whose clients take nothing. Above it, the connection that
/// holds most ends.
pub(crate) const HELD_BODIES: usize = 256 << 20;

#[cfg(test)]
mod tests;
