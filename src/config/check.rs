//! Checks the written keys and makes a [`Config`] of them.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::thread;

use sekisho_certs::HostName;
use sekisho_certs::seal::KeySource;
use sekisho_server::access_log::{self, Format, Target};
use sekisho_server::admin::Address;
use sekisho_server::network::{Network, Networks};
use sekisho_server::site::{Allowed, NamedFields, RawSite, Site, SiteError};
use sekisho_server::{Defaults, Limits};
use sekisho_stores::Url;
use sekisho_stores::redis::RedisUrl;
use sekisho_stores::url::path_below;

use super::acme::{self, RawAcme};
use super::hook;
use super::keys::{DISK_CACHE, MASTER_KEY, key};
use super::locate::Problem;
use super::name_server::name_server;
use super::own;
use super::raw::{RawCache, RawConfig, RawListen, RawLog, RawServer, RawSites, RawStore};
use super::secret::SecretSource;
use super::{Cache, Config, Disk, Listen, Store};

type Result<T> = std::result::Result<T, Problem>;

/// Checks the whole file; stops at the first problem.
pub(crate) fn check(raw: RawConfig, file: &Path) -> Result<Config> {
    let base = file.parent().expect("an absolute file has a folder");
    let listen = listen(&raw.listen, base)?;
    let store = store(&raw.store, base)?;
    let site = site(raw.site, base)?;
    let named_fields = named_fields(&raw.sites, &site)?;
    let hook = raw.hook.as_ref().map(|raw| hook::check(raw, base));
    let hook = hook.transpose()?;
    own::apart(&store.url, hook.as_ref(), &site)
        .map_err(|text| Problem::at(&["site", "root"], text))?;
    let acme = raw.acme.as_ref();
    let acme = acme.map(|acme| acme::check(acme, &store.url, base));
    Ok(Config {
        file: file.to_owned(),
        defaults: defaults(&raw.default, &listen.https)?,
        redis_cache: redis_cache(&raw.cache, &store.url, base)?,
        keys: keys(raw.keys.master.as_deref(), &store.url, base)?,
        cache: cache(&raw.cache, &store.url, base)?,
        store,
        site,
        name_servers: name_servers(&raw.sites.resolvers)?,
        allowed: allowed(raw.sites, base)?,
        named_fields,
        tickets: tickets(raw.tickets.key.as_deref(), base)?,
        access_log: access_log(&raw.log, base)?,
        acme: acme.transpose()?,
        hook,
        limits: limits(&raw.server, raw.acme.as_ref())?,
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
        SecretSource::parse(text, base)
            .map_err(|text| Problem::at(&["listen", "admin_token"], text))
    };
    let admin_token = raw.admin_token.as_ref().map(source).transpose()?;
    let admin = raw.admin.as_ref().map(|text| admin(text, base));
    let admin = admin.transpose()?;
    if let Some(Address::Tcp(address)) = admin
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
    distinct(&https, &http, admin.as_ref())?;
    let port = |number| {
        let port = key("listen", "public_port").count(Some(number))?;
        Ok(u16::try_from(port).expect("the range fits"))
    };
    Ok(Listen {
        https,
        http,
        public_port: raw.public_port.map(port).transpose()?,
        admin,
        admin_token,
        trusted: networks("trusted", &raw.trusted)?,
        proxy: networks("proxy", &raw.proxy)?,
    })
}

fn networks(key: &str, texts: &[String]) -> Result<Networks> {
    let at = |index: usize, text| Problem::at(&["listen", key, &index.to_string()], text);
    let networks = texts.iter().enumerate().map(|(index, text)| {
        let network = Network::parse(text);
        network.map_err(|error| at(index, error.to_string()))
    });
    networks.collect()
}

fn access_log(raw: &RawLog, base: &Path) -> Result<Option<access_log::Settings>> {
    let at = |key: &'static str| move |text: String| Problem::at(&["log", key], text);
    let format = match raw.format.as_deref() {
        None | Some("json") => Format::Json,
        Some("combined") => Format::Combined,
        Some(other) => {
            let text = format!("{other:?} is no format; write \"json\" or \"combined\"");
            return Err(at("format")(text));
        }
    };
    let target = match raw.access.as_deref() {
        Some("-") => Target::Stdout,
        Some(path) => Target::File(path_below(base, path).map_err(at("access"))?),
        None if raw.format.is_some() => {
            let text = "is of use with access alone; write access = \"access.log\", or leave the \
                        key out";
            return Err(at("format")(text.into()));
        }
        None => return Ok(None),
    };
    Ok(Some(access_log::Settings { target, format }))
}

fn admin(text: &str, base: &Path) -> Result<Address> {
    let place = ["listen", "admin"];
    match text.strip_prefix("unix:") {
        Some(path) => {
            let path = path_below(base, path).map_err(|text| Problem::at(&place, text))?;
            Ok(Address::Unix(path))
        }
        None => address(text, &place).map(Address::Tcp),
    }
}

fn store(raw: &RawStore, base: &Path) -> Result<Store> {
    let at = |key: &'static str| move |text: String| Problem::at(&["store", key], text);
    let text = raw
        .url
        .as_ref()
        .ok_or_else(|| at("url")("is missing; write url = \"sqlite:hosts.db\"".into()))?;
    let url = Url::parse(text, base).map_err(at("url"))?;
    let (token, ca) = (raw.token.as_deref(), raw.ca.as_deref());
    let (is_https, is_http) = (text.starts_with("https:"), text.starts_with("http:"));
    for (key, is_given) in [("token", token.is_some()), ("ca", ca.is_some())] {
        if is_given && !is_https && !is_http {
            let text = "only a store behind https:// has it; leave the key out";
            return Err(at(key)(text.into()));
        }
    }
    if is_http && ca.is_some() {
        let text = "http:// has no certificate to verify; leave the key out";
        return Err(at("ca")(text.into()));
    }
    let token = token.map(|text| SecretSource::parse(text, base));
    let ca = ca.map(|text| path_below(base, text));
    Ok(Store {
        url,
        token: token.transpose().map_err(at("token"))?,
        ca: ca.transpose().map_err(at("ca"))?,
    })
}

/// Only the embedded store has a folder for a default master key.
fn keys(master: Option<&str>, store: &Url, base: &Path) -> Result<Option<KeySource>> {
    let (text, folder) = match (master, store.database()) {
        (Some(text), _) => (text, base),
        (None, Some(path)) => (MASTER_KEY, path.parent().unwrap_or(base)),
        (None, None) => return Ok(None),
    };
    let source = KeySource::parse(text, folder);
    source
        .map(Some)
        .map_err(|error| Problem::at(&["keys", "master"], error.to_string()))
}

/// Takes a file alone: its keys are bytes, and are read again.
fn tickets(key: Option<&str>, base: &Path) -> Result<Option<PathBuf>> {
    let at = |text: String| Problem::at(&["tickets", "key"], text);
    match key.map(|text| SecretSource::parse(text, base)).transpose() {
        Ok(None) => Ok(None),
        Ok(Some(SecretSource::File(path))) => Ok(Some(path)),
        Ok(Some(SecretSource::Env(_))) | Err(_) => Err(at(
            "ticket keys are in a file, which is read again; write \"file:PATH\"".into(),
        )),
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

/// Port 0 means any free port, and therefore may repeat.
fn distinct(https: &[SocketAddr], http: &[SocketAddr], admin: Option<&Address>) -> Result<()> {
    let mut seen = HashMap::new();
    let https = https.iter().map(|address| ("https", address));
    let http = http.iter().map(|address| ("http", address));
    let admin = admin.and_then(|admin| match admin {
        Address::Tcp(address) => Some(("admin", address)),
        Address::Unix(_) => None,
    });
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
fn redis_cache(raw: &RawCache, store: &Url, base: &Path) -> Result<Option<Box<RedisUrl>>> {
    let at = |text: String| Problem::at(&["cache", "redis"], text);
    let Some(url) = &raw.redis else {
        return Ok(None);
    };
    if !store.is_catalog() {
        return Err(at(
            "only postgres:// has a use for it: this store tells nobody what changed in it, so \
             that copies in Redis would grow old; leave the key out"
                .into(),
        ));
    }
    let url = RedisUrl::parse_cache(url, base).map_err(at)?;
    Ok(Some(Box::new(url)))
}

fn cache(raw: &RawCache, store: &Url, base: &Path) -> Result<Cache> {
    let key = |name| key("cache", name);
    Ok(Cache {
        memory: key("memory").bytes(raw.memory.as_ref())?,
        fresh: key("fresh").time(raw.fresh.as_ref())?,
        absent: key("absent").time(raw.absent.as_ref())?,
        files: key("files").bytes(raw.files.as_ref())?,
        disk: disk(raw, store, base)?,
    })
}

fn disk(raw: &RawCache, store: &Url, base: &Path) -> Result<Option<Disk>> {
    let at = |text: String| Problem::at(&["cache", "disk"], text);
    let wanted = raw.disk.as_deref();
    let size = key("cache", "disk_size").bytes(raw.disk_size.as_ref())?;
    if wanted == Some("off") {
        return Ok(None);
    }
    if store.is_local() {
        return match wanted {
            None => Ok(None),
            Some(_) => Err(at(
                "the store is on this machine itself; leave the key out".into()
            )),
        };
    }
    let path = path_below(base, wanted.unwrap_or(DISK_CACHE)).map_err(at)?;
    Ok(Some(Disk { path, size }))
}

fn site(raw: Option<toml::Table>, base: &Path) -> Result<Site> {
    let Some(table) = raw else {
        return Ok(Site::not_found());
    };
    let site = RawSite::read(toml::Value::Table(table)).and_then(|raw| raw.check(Some(base)));
    site.map_err(|error| match error {
        SiteError::Wrong(wrong) => {
            let keys = wrong.key().iter().map(String::as_str);
            let place: Vec<_> = std::iter::once("site").chain(keys).collect();
            Problem::at(&place, wrong.problem())
        }
        other => Problem::at(&["site"], other.to_string()),
    })
}

fn allowed(raw: RawSites, base: &Path) -> Result<Allowed> {
    let Some(entries) = raw.allow else {
        return Ok(Allowed::default());
    };
    Allowed::parse(&entries, base)
        .map_err(|(index, text)| Problem::at(&["sites", "allow", &index.to_string()], text))
}

/// Checks the names of fields. `[site]` must not change these fields either.
fn named_fields(raw: &RawSites, site: &Site) -> Result<NamedFields> {
    let (tenant, certificate) = (&raw.tenant_field, &raw.certificate_field);
    let named = NamedFields::check(tenant.as_deref(), certificate.as_deref())
        .map_err(|(key, text)| Problem::at(&["sites", key], text))?;
    match site.changed_field(&named) {
        Some((name, key)) => Err(Problem::at(
            &["sites", key],
            format!(
                "`request` in [site] changes {name}; leave it out there, or choose another name"
            ),
        )),
        None => Ok(named),
    }
}

fn name_servers(texts: &[String]) -> Result<Vec<SocketAddr>> {
    let parsed = texts.iter().enumerate().map(|(index, text)| {
        let place = ["sites", "resolvers", &index.to_string()];
        name_server(text).map_err(|text| Problem::at(&place, text))
    });
    parsed.collect()
}

fn limits(raw: &RawServer, acme: Option<&RawAcme>) -> Result<Limits> {
    let key = |name| key("server", name);
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let loads = key("loads").count(raw.loads)?;
    Ok(Limits {
        workers: key("workers").count_or(raw.workers, cores)?,
        connections: key("connections").count(raw.connections)?,
        handshake: key("handshake_timeout").time(raw.handshake_timeout.as_ref())?,
        head: key("header_timeout").time(raw.header_timeout.as_ref())?,
        idle: key("idle_timeout").time(raw.idle_timeout.as_ref())?,
        body: key("body_timeout").time(raw.body_timeout.as_ref())?,
        host_look: Limits::HOST_LOOK,
        drain: key("drain_timeout").time(raw.drain_timeout.as_ref())?,
        prefix_absent_budget: key("absent_per_prefix").count(raw.absent_per_prefix)?,
        loads,
        prefix_in_flight: key("loads_per_prefix").count_up_to(raw.loads_per_prefix, loads)?,
        loads_waiting: key("loads_waiting").count(raw.loads_waiting)?,
        certificates: acme::waits(acme)?,
    })
}
