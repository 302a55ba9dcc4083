//! Checks the written keys and makes a [`Config`] of them.

use std::path::{Path, PathBuf};
use std::thread;

use sekisho_certs::Secret;
use sekisho_certs::seal::KeySource;
use sekisho_server::Limits;
use sekisho_server::access_log::{self, Format, Target};
use sekisho_server::site::{Allowed, NamedFields, Site};
use sekisho_stores::Url;
use sekisho_stores::redis::RedisUrl;
use sekisho_stores::url::path_below;

use super::acme::{self, RawAcme};
use super::hook;
use super::keys::{DISK_CACHE, MASTER_KEY, key};
use super::listen;
use super::locate::Problem;
use super::name_server::name_server;
use super::own;
use super::problems::Problems;
use super::raw::{RawCache, RawConfig, RawLog, RawServer, RawSites, RawStore};
use super::secret::SecretSource;
use super::site;
use super::{Cache, Config, Disk, Store};

/// Checks the whole file, and adds to the problems that its keys have.
///
/// # Errors
/// All problems, if there are any.
pub(crate) fn check(
    raw: RawConfig,
    file: &Path,
    mut problems: Problems,
) -> Result<Config, Problems> {
    match checked(raw, file, &mut problems) {
        Some(config) if problems.len() == 0 => Ok(config),
        _ => Err(problems),
    }
}

/// Checks each section, then what sections say of each other.
fn checked(raw: RawConfig, file: &Path, problems: &mut Problems) -> Option<Config> {
    let base = file.parent().expect("an absolute file has a folder");
    let listen = listen::check(&raw.listen, base, problems);
    let defaults = listen::defaults(&raw.default, &listen.https, problems);
    let store = store(&raw.store, base, problems);
    let url = store.as_ref().map(|store| &store.url);
    let site = site::check(raw.site, base, problems);
    let named_fields = named_fields(&raw.sites, site.as_ref(), problems);
    let hook = raw.hook.as_ref();
    let hook = hook.and_then(|raw| hook::check(raw, base, problems));
    if listen.plain && raw.hook.is_some() {
        let text = "a script chooses by ClientHello, and plain HTTP has none; leave plain or \
                    [hook] out";
        problems.add(Problem::at(&["listen", "plain"], text));
    }
    if let (Some(url), Some(site)) = (url, &site) {
        let apart = own::apart(url, hook.as_ref(), site);
        problems.keep(apart.map_err(|text| Problem::at(&["site", "root"], text)));
    }
    let acme = raw.acme.as_ref();
    let acme = acme.map(|acme| acme::check(acme, url, base, problems));
    let redis_cache =
        url.and_then(|url| redis_cache(raw.cache.redis.as_ref(), url, base, problems));
    let keys = url.map(|url| keys(raw.keys.master.as_deref(), url, base));
    let keys = problems.or_default(keys.transpose()).flatten();
    let cache = cache(&raw.cache, url, base, problems);
    let name_servers = problems.list("sites", "resolvers", &raw.sites.resolvers, name_server);
    let allowed = allowed(raw.sites.allow.as_deref(), base, problems);
    let tickets = problems.parsed(&["tickets", "key"], raw.tickets.key.as_ref(), |text| {
        tickets(text, base)
    });
    let access_log = access_log(&raw.log, base, problems);
    let limits = limits(&raw.server, raw.acme.as_ref(), problems);
    let handover = key("server", "handover_timeout").time(raw.server.handover_timeout.as_ref());
    let handover = problems.or_default(handover);
    Some(Config {
        file: file.to_owned(),
        text: Secret::new(Vec::new()),
        listen,
        defaults,
        store: store?,
        keys,
        cache,
        redis_cache,
        site: site?,
        allowed,
        named_fields,
        name_servers,
        tickets,
        access_log,
        acme,
        hook,
        limits,
        handover,
    })
}

fn access_log(raw: &RawLog, base: &Path, problems: &mut Problems) -> Option<access_log::Settings> {
    let place = ["log", "format"];
    let format = problems.parsed(&place, raw.format.as_ref(), |text| match text {
        "json" => Ok(Format::Json),
        "combined" => Ok(Format::Combined),
        _ => Err(format!(
            "{text:?} is no format; write \"json\" or \"combined\""
        )),
    });
    if raw.access.is_none() && raw.format.is_some() {
        let text = "is of use with access alone; write access = \"access.log\", or leave the key \
                    out";
        problems.add_lack(&["log", "access"], Problem::at(&place, text));
    }
    let target = problems.parsed(&["log", "access"], raw.access.as_ref(), |text| match text {
        "-" => Ok(Target::Stdout),
        path => Ok(Target::File(path_below(base, path)?)),
    });
    Some(access_log::Settings {
        target: target?,
        format: format.unwrap_or(Format::Json),
    })
}

fn store(raw: &RawStore, base: &Path, problems: &mut Problems) -> Option<Store> {
    let Some(text) = &raw.url else {
        let text = "is missing; write url = \"sqlite:hosts.db\"";
        problems.add_missing(&["store", "url"], text);
        return None;
    };
    let url = problems.parsed(&["store", "url"], Some(text), |text| Url::parse(text, base))?;
    let (token, ca) = (raw.token.as_ref(), raw.ca.as_ref());
    let (is_https, is_http) = (text.starts_with("https:"), text.starts_with("http:"));
    for (key, is_given) in [("token", token.is_some()), ("ca", ca.is_some())] {
        if is_given && !is_https && !is_http {
            let text = "only a store behind https:// has it; leave the key out";
            problems.add(Problem::at(&["store", key], text));
        }
    }
    if is_http && ca.is_some() {
        let text = "http:// has no certificate to verify; leave the key out";
        problems.add(Problem::at(&["store", "ca"], text));
    }
    let secret = |text: &str| SecretSource::parse(text, base);
    Some(Store {
        url,
        token: problems.parsed(&["store", "token"], token, secret),
        ca: problems.parsed(&["store", "ca"], ca, |path| path_below(base, path)),
    })
}

/// Only the embedded store has a folder for a default master key.
fn keys(master: Option<&str>, store: &Url, base: &Path) -> Result<Option<KeySource>, Problem> {
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
fn tickets(text: &str, base: &Path) -> Result<PathBuf, String> {
    match SecretSource::parse(text, base) {
        Ok(SecretSource::File(path)) => Ok(path),
        Ok(SecretSource::Env(_)) | Err(_) => {
            Err("ticket keys are in a file, which is read again; write \"file:PATH\"".into())
        }
    }
}

/// Copies of a catalog can be told what changed; nobody tells of the others.
fn redis_cache(
    url: Option<&String>,
    store: &Url,
    base: &Path,
    problems: &mut Problems,
) -> Option<Box<RedisUrl>> {
    problems.parsed(&["cache", "redis"], url, |url| {
        if !store.is_catalog() {
            return Err(
                "only postgres:// has a use for it: this store tells nobody what changed in it, \
                 so that copies in Redis would grow old; leave the key out"
                    .into(),
            );
        }
        Ok(Box::new(RedisUrl::parse_cache(url, base)?))
    })
}

fn cache(raw: &RawCache, store: Option<&Url>, base: &Path, problems: &mut Problems) -> Cache {
    let key = |name| key("cache", name);
    let size = problems.or_default(key("disk_size").bytes(raw.disk_size.as_ref()));
    let path = store.map(|store| disk(raw.disk.as_deref(), store, base));
    let path = problems.or_default(path.transpose()).flatten();
    Cache {
        memory: problems.or_default(key("memory").bytes(raw.memory.as_ref())),
        fresh: problems.or_default(key("fresh").time(raw.fresh.as_ref())),
        absent: problems.or_default(key("absent").time(raw.absent.as_ref())),
        files: problems.or_default(key("files").bytes(raw.files.as_ref())),
        disk: path.map(|path| Disk { path, size }),
    }
}

/// Returns the file of the disk cache.
fn disk(wanted: Option<&str>, store: &Url, base: &Path) -> Result<Option<PathBuf>, Problem> {
    let at = |text: String| Problem::at(&["cache", "disk"], text);
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
    Ok(Some(path))
}

fn allowed(entries: Option<&[String]>, base: &Path, problems: &mut Problems) -> Allowed {
    let Some(entries) = entries else {
        return Allowed::default();
    };
    let right: Vec<String> = problems.list("sites", "allow", entries, |entry| {
        let parsed = Allowed::parse(&[entry], base);
        parsed.map(|_| entry.to_owned()).map_err(|(_, text)| text)
    });
    Allowed::parse(&right, base).expect("each entry is right by itself")
}

/// Checks the names of fields. `[site]` must not change these fields either.
fn named_fields(raw: &RawSites, site: Option<&Site>, problems: &mut Problems) -> NamedFields {
    let (tenant, certificate) = (&raw.tenant_field, &raw.certificate_field);
    let named = NamedFields::check(tenant.as_deref(), certificate.as_deref())
        .map_err(|(key, text)| Problem::at(&["sites", key], text));
    let named = problems.or_default(named);
    if let Some((name, key)) = site.and_then(|site| site.changed_field(&named)) {
        let text = format!(
            "`request` in [site] changes {name}; leave it out there, or choose another name"
        );
        problems.add(Problem::at(&["sites", key], text));
    }
    named
}

fn limits(raw: &RawServer, acme: Option<&RawAcme>, problems: &mut Problems) -> Limits {
    let key = |name| key("server", name);
    let cores = thread::available_parallelism().map_or(1, Into::into);
    let loads = problems.keep(key("loads").count(raw.loads));
    let per_prefix = key("loads_per_prefix");
    let per_prefix = per_prefix.count_up_to(raw.loads_per_prefix, loads.unwrap_or(usize::MAX));
    let mut count = |name, number| problems.or_default(key(name).count(number));
    let connections = count("connections", raw.connections);
    let absent_per_prefix = count("absent_per_prefix", raw.absent_per_prefix);
    let loads_waiting = count("loads_waiting", raw.loads_waiting);
    let mut time = |name, text: &Option<String>| problems.or_default(key(name).time(text.as_ref()));
    Limits {
        handshake: time("handshake_timeout", &raw.handshake_timeout),
        head: time("header_timeout", &raw.header_timeout),
        idle: time("idle_timeout", &raw.idle_timeout),
        body: time("body_timeout", &raw.body_timeout),
        drain: time("drain_timeout", &raw.drain_timeout),
        host_look: Limits::HOST_LOOK,
        workers: problems.or_default(key("workers").count_or(raw.workers, cores)),
        connections,
        absent_per_prefix,
        loads: loads.unwrap_or_default(),
        loads_per_prefix: problems.or_default(per_prefix),
        loads_waiting,
        certificates: acme::waits(acme, problems),
    }
}
