//! From what was written to what is used.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::thread;
use std::time::Duration;

use sekisho_certs::HostName;
use sekisho_certs::seal::KeySource;
use sekisho_server::site::{AllowedRoots, RawSite, Site, SiteError};
use sekisho_server::{Defaults, Limits};
use sekisho_stores::redis::RedisUrl;

use super::locate::Problem;
use super::own;
use super::raw::{RawCache, RawConfig, RawListen, RawServer, RawSites, RawStore};
use super::store::{StoreUrl, TokenSource, path_below};
use super::value::{count, duration, size};
use super::{Cache, Config, Disk, Listen};

type Result<T> = std::result::Result<T, Problem>;

/// Checks everything; stops at the first problem.
pub(crate) fn check(raw: RawConfig, file: &Path) -> Result<Config> {
    let base = file.parent().expect("an absolute file has a folder");
    let listen = listen(&raw.listen, base)?;
    let store = store(&raw.store, base)?;
    let site = site(raw.site, base)?;
    own::apart(&store, &site).map_err(|text| Problem::at(&["site", "root"], text))?;
    let tickets = |path: String| {
        path_below(base, &path).map_err(|text| Problem::at(&["tickets", "key_file"], text))
    };
    Ok(Config {
        file: file.to_owned(),
        defaults: defaults(&raw.default, &listen.https)?,
        redis_cache: redis_cache(&raw.cache, &store, base)?,
        keys: keys(raw.keys.master.as_deref(), &store, base)?,
        cache: cache(&raw.cache, &store, base)?,
        store,
        site,
        allowed_roots: allowed_roots(raw.sites, base)?,
        tickets: raw.tickets.key_file.map(tickets).transpose()?,
        limits: limits(&raw.server)?,
        listen,
    })
}

fn listen(raw: &RawListen, base: &Path) -> Result<Listen> {
    let https = addresses("https", &raw.https)?;
    if https.is_empty() {
        return Err(Problem::at(
            &["listen", "https"],
            "is missing; write https = [\"0.0.0.0:443\", \"[::]:443\"]",
        ));
    }
    let http = addresses("http", &raw.http)?;
    let source = |text: &String| {
        TokenSource::parse(text, base).map_err(|text| Problem::at(&["listen", "admin_token"], text))
    };
    let admin_token = raw.admin_token.as_ref().map(source).transpose()?;
    let admin = raw
        .admin
        .as_ref()
        .map(|text| address(text, &["listen", "admin"]));
    let admin = admin.transpose()?;
    if let Some(address) = admin
        && !address.ip().to_canonical().is_loopback()
        && admin_token.is_none()
    {
        return Err(Problem::at(
            &["listen", "admin"],
            format!(
                "{address} can be reached from elsewhere; use 127.0.0.1, or write \
                 admin_token = \"file:PATH\" or \"env:NAME\""
            ),
        ));
    }
    distinct(&https, &http, admin)?;
    let port = |number| {
        let port = count(number, &(1..=usize::from(u16::MAX)));
        let port = port.map_err(|text| Problem::at(&["listen", "public_port"], text))?;
        Ok(u16::try_from(port).expect("it is in the range"))
    };
    Ok(Listen {
        https,
        http,
        public_port: raw.public_port.map(port).transpose()?,
        admin,
        admin_token,
    })
}

fn store(raw: &RawStore, base: &Path) -> Result<StoreUrl> {
    let at = |key: &'static str| move |text: String| Problem::at(&["store", key], text);
    let url = raw
        .url
        .as_ref()
        .ok_or_else(|| at("url")("is missing; write url = \"sqlite:hosts.db\"".into()))?;
    let mut store = StoreUrl::parse(url, base).map_err(at("url"))?;
    let is_https = url.starts_with("https:");
    let given = [("token", raw.token.is_some()), ("ca", raw.ca.is_some())];
    match &mut store {
        StoreUrl::Http { token, ca, .. } => {
            let source = |text| TokenSource::parse(text, base);
            *token = raw
                .token
                .as_deref()
                .map(source)
                .transpose()
                .map_err(at("token"))?;
            let path = |text| path_below(base, text);
            *ca = raw.ca.as_deref().map(path).transpose().map_err(at("ca"))?;
            if ca.is_some() && !is_https {
                let text = "http:// has no certificate to verify; leave the key out";
                return Err(at("ca")(text.into()));
            }
        }
        _ => {
            if let Some((key, _)) = given.iter().find(|(_, is_given)| *is_given) {
                let text = "only a store behind https:// has it; leave the key out";
                return Err(at(key)(text.into()));
            }
        }
    }
    Ok(store)
}

/// Only the embedded store has a folder in which a master key can lie by
/// default.
fn keys(master: Option<&str>, store: &StoreUrl, base: &Path) -> Result<Option<KeySource>> {
    match (master, store) {
        (Some(text), _) => {
            let source = text.parse::<KeySource>();
            let source = source.map(|source| Some(source.relative_to(base)));
            source.map_err(|error| Problem::at(&["keys", "master"], error.to_string()))
        }
        (None, StoreUrl::Sqlite(path)) => {
            Ok(Some(KeySource::File(path.with_file_name(MASTER_KEY))))
        }
        (None, _) => Ok(None),
    }
}

fn addresses(key: &str, texts: &[String]) -> Result<Vec<SocketAddr>> {
    let place = |index: usize| ["listen".to_owned(), key.to_owned(), index.to_string()];
    texts
        .iter()
        .enumerate()
        .map(|(index, text)| address(text, &place(index).each_ref().map(String::as_str)))
        .collect()
}

fn address(text: &str, place: &[&str]) -> Result<SocketAddr> {
    text.parse().map_err(|_| {
        Problem::at(
            place,
            format!(
                "{text:?} is no address with a port; write \"127.0.0.1:8443\" or \"[::1]:8443\""
            ),
        )
    })
}

/// Port 0 stands for any free port, so it may repeat.
fn distinct(https: &[SocketAddr], http: &[SocketAddr], admin: Option<SocketAddr>) -> Result<()> {
    let mut seen = HashMap::new();
    let https = https.iter().map(|address| ("https", address));
    let http = http.iter().map(|address| ("http", address));
    let admin = admin.iter().map(|address| ("admin", address));
    for (key, address) in https.chain(http).chain(admin) {
        if address.port() == 0 {
            continue;
        }
        if let Some(first) = seen.insert(*address, key) {
            return Err(Problem::at(
                &["listen", key],
                format!("{address} already stands in {first}; an address can be taken once"),
            ));
        }
    }
    Ok(())
}

fn defaults(
    raw: &std::collections::BTreeMap<String, String>,
    https: &[SocketAddr],
) -> Result<Defaults> {
    let mut defaults = Defaults::default();
    for (key, name) in raw {
        let place = ["default", key.as_str()];
        let host = HostName::parse(name)
            .map_err(|error| Problem::at(&place, format!("{name:?} is no host name: {error}")))?;
        if key == "*" {
            defaults.any = Some(host);
            continue;
        }
        let address = address(key, &place)?;
        if !https.contains(&address) {
            let text =
                format!("{address} does not stand in [listen] https; write one of those, or \"*\"");
            return Err(Problem::at(&place, text));
        }
        defaults.by_address.insert(address, host);
    }
    Ok(defaults)
}

/// Copies of a catalog can be told what changed; nobody tells of the others.
fn redis_cache(raw: &RawCache, store: &StoreUrl, base: &Path) -> Result<Option<Box<RedisUrl>>> {
    let at = |text: String| Problem::at(&["cache", "redis"], text);
    match (&raw.redis, store) {
        (None, _) => Ok(None),
        (Some(url), StoreUrl::Sqlite(_) | StoreUrl::Postgres(_)) => {
            let url = RedisUrl::parse_cache(url, base).map_err(at)?;
            Ok(Some(Box::new(url)))
        }
        (Some(_), StoreUrl::Files { .. } | StoreUrl::Http { .. } | StoreUrl::Redis(_)) => Err(at(
            "only postgres:// has a use for it: this store tells nobody what changed in it, so \
             that copies in Redis would grow old; leave the key out"
                .into(),
        )),
    }
}

fn cache(raw: &RawCache, store: &StoreUrl, base: &Path) -> Result<Cache> {
    let bytes = |key: &str, text: &Option<String>, default| match text {
        None => Ok(default),
        Some(text) => size(text, &MEMORY).map_err(|text| Problem::at(&["cache", key], text)),
    };
    let time = |key: &str, text: &Option<String>, default, range: RangeInclusive<Duration>| {
        times("cache", key, text.as_ref(), default, &range)
    };
    Ok(Cache {
        memory: bytes("memory", &raw.memory, 64 << 20)?,
        fresh: time("fresh", &raw.fresh, SECOND * 60, SECOND..=DAY)?,
        absent: time("absent", &raw.absent, SECOND * 5, TENTH..=HOUR)?,
        files: bytes("files", &raw.files, 16 << 20)?,
        disk: disk(raw, store, base)?,
    })
}

fn disk(raw: &RawCache, store: &StoreUrl, base: &Path) -> Result<Option<Disk>> {
    let at = |key: &'static str| move |text: String| Problem::at(&["cache", key], text);
    let wanted = raw.disk.as_deref();
    let bytes = raw.disk_size.as_deref();
    let bytes = bytes.map_or(Ok(256 << 20), |text| size(text, &DISK));
    let size = bytes.map_err(at("disk_size"))?;
    if wanted == Some("off") {
        return Ok(None);
    }
    if !store.is_remote() {
        return match wanted {
            None => Ok(None),
            Some(_) => Err(at("disk")(
                "the store is on this machine itself; leave the key out".into(),
            )),
        };
    }
    let path = path_below(base, wanted.unwrap_or("disk-cache.db")).map_err(at("disk"))?;
    Ok(Some(Disk { path, size }))
}

fn site(raw: Option<RawSite>, base: &Path) -> Result<Site> {
    let Some(raw) = raw else {
        return Ok(Site::not_found());
    };
    raw.check(Some(base)).map_err(|error| match error {
        SiteError::Value { key, problem } => Problem::at(&["site", key], problem),
        SiteError::NotBuilt(key) => Problem::at(&["site", key], error.to_string()),
        _ => Problem::at(&["site"], error.to_string()),
    })
}

fn allowed_roots(raw: RawSites, base: &Path) -> Result<AllowedRoots> {
    let Some(folders) = raw.allow else {
        return Ok(AllowedRoots::default());
    };
    let at = |index: usize, text| Problem::at(&["sites", "allow", &index.to_string()], text);
    let folders = folders.iter().enumerate();
    let folders: Vec<_> = folders
        .map(|(index, folder)| path_below(base, folder).map_err(|text| at(index, text)))
        .collect::<Result<_>>()?;
    AllowedRoots::new(folders).map_err(|(index, text)| at(index, text))
}

fn limits(raw: &RawServer) -> Result<Limits> {
    let number = |key: &str, value: Option<i64>, default, range: RangeInclusive<usize>| match value
    {
        None => Ok(default),
        Some(value) => count(value, &range).map_err(|text| Problem::at(&["server", key], text)),
    };
    let time = |key: &str, text: &Option<String>, seconds, range: RangeInclusive<Duration>| {
        times("server", key, text.as_ref(), SECOND * seconds, &range)
    };
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let loads = number("loads", raw.loads, 256, 1..=1 << 16)?;
    let absent = 1..=1_000_000_000;
    Ok(Limits {
        workers: number("workers", raw.workers, cores.min(1024), 1..=1024)?,
        connections: number("connections", raw.connections, 1 << 16, 1..=10_000_000)?,
        handshake: time(
            "handshake_timeout",
            &raw.handshake_timeout,
            10,
            TENTH..=MINUTE * 5,
        )?,
        head: time(
            "header_timeout",
            &raw.header_timeout,
            15,
            TENTH..=MINUTE * 5,
        )?,
        idle: time("idle_timeout", &raw.idle_timeout, 60, SECOND..=HOUR)?,
        body: time("body_timeout", &raw.body_timeout, 30, TENTH..=HOUR)?,
        drain: time(
            "drain_timeout",
            &raw.drain_timeout,
            30,
            Duration::ZERO..=HOUR,
        )?,
        prefix_absent_budget: number("absent_per_prefix", raw.absent_per_prefix, 600, absent)?,
        loads,
        prefix_in_flight: number(
            "loads_per_prefix",
            raw.loads_per_prefix,
            loads.min(64),
            1..=loads,
        )?,
        loads_waiting: number("loads_waiting", raw.loads_waiting, 4096, 0..=1_000_000)?,
    })
}

fn times(
    section: &str,
    key: &str,
    text: Option<&String>,
    default: Duration,
    range: &RangeInclusive<Duration>,
) -> Result<Duration> {
    text.map_or(Ok(default), |text| {
        duration(text, range).map_err(|text| Problem::at(&[section, key], text))
    })
}

/// Beside an embedded store.
const MASTER_KEY: &str = "master.key";
/// Less holds no useful number of entries; more is a slip of the keys.
const MEMORY: RangeInclusive<usize> = 1 << 20..=1 << 40;
/// The least holds a thousand hosts.
const DISK: RangeInclusive<usize> = 4 << 20..=1 << 40;
const TENTH: Duration = Duration::from_millis(100);
const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);
