//! Configuration of sekisho.

use std::net::SocketAddr;
use std::path::Path;

use super::services::{Remote, Service};
use crate::fixtures::Folder;

/// Source of sekisho's hosts.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Store {
    Sqlite,
    Files,
    Redis(Copies),
    Postgres(Copies),
    /// PostgreSQL behind a Redis cache that holds all hosts.
    RedisCache,
}

/// Disk cache setting of a server: without one, or the default.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Copies {
    None,
    /// Default of the configuration.
    Kept,
}

impl Store {
    /// Returns the services, that of the store first.
    pub(crate) fn services(self) -> &'static [Service] {
        match self {
            Self::Sqlite | Self::Files => &[],
            Self::Redis(_) => &[Service::Redis],
            Self::Postgres(_) => &[Service::Postgres],
            Self::RedisCache => &[Service::Postgres, Service::Redis],
        }
    }
}

#[derive(Debug)]
pub(crate) struct Sekisho<'a> {
    pub(crate) fixture: Folder<'a>,
    pub(crate) store: Store,
    pub(crate) memory: &'a str,
    pub(crate) site: &'a Path,
    pub(crate) php: &'a Path,
    /// Folder of CGI programs, if host records may name it.
    pub(crate) programs: Option<&'a Path>,
    /// Folder of the SQLite file and its master key.
    pub(crate) catalog: &'a Path,
    /// Remote store, if there is one.
    pub(crate) remote: Option<Remote>,
    /// URL of the Redis cache, if there is one.
    pub(crate) redis_cache: Option<String>,
    pub(crate) address: SocketAddr,
    pub(crate) admin: Option<SocketAddr>,
    /// Allows host records to name the upstreams.
    pub(crate) proxies: bool,
    /// Section of the handshake hook, or empty.
    pub(crate) hook: String,
    /// Set if handshakes may take a minute.
    pub(crate) is_patient: bool,
    pub(crate) workers: usize,
}

impl Sekisho<'_> {
    pub(crate) fn config(&self) -> String {
        let store = match self.store {
            Store::Sqlite => format!(
                "[store]\nurl = \"sqlite:{catalog}/hosts.db\"\n\
                 [keys]\nmaster = \"file:{catalog}/master.key\"\n",
                catalog = self.catalog.display()
            ),
            Store::Files => format!(
                "[store]\nurl = \"files:{},{}\"\n",
                self.fixture.chain("{host}").display(),
                self.fixture.key("{host}").display()
            ),
            Store::Redis(_) | Store::Postgres(_) | Store::RedisCache => {
                self.remote.as_ref().map_or_else(String::new, section)
            }
        };
        let disk = match self.store {
            Store::Redis(Copies::None) | Store::Postgres(Copies::None) | Store::RedisCache => {
                "disk = \"off\"\n"
            }
            Store::Redis(Copies::Kept) | Store::Postgres(Copies::Kept) => "",
            Store::Sqlite | Store::Files => "",
        };
        let redis_cache = self.redis_cache.as_ref();
        let redis_cache =
            redis_cache.map_or_else(String::new, |url| format!("redis = \"{url}\"\n"));
        let admin = self
            .admin
            .map_or_else(String::new, |admin| format!("admin = \"{admin}\"\n"));
        let patience = match self.is_patient {
            true => "handshake_timeout = \"1m\"\n",
            false => "",
        };
        let site = self.site.display();
        // Roots in records lie in the folder of the bench, outside of the default.
        let sites = if self.proxies {
            let php = self.php.display();
            let programs = self.programs.map_or_else(String::new, |folder| {
                format!(", \"cgi:{}\"", folder.display())
            });
            format!(
                "[sites]\nallow = \
                 [\"{site}\", \"{php}\", \"unix:{php}\", \"127.9.0.0/16\"{programs}]\n"
            )
        } else {
            String::new()
        };
        format!(
            "[listen]\nhttps = [\"{}\"]\n\
             {admin}\
             {store}\
             [cache]\nmemory = \"{}\"\n{disk}{redis_cache}\
             [site]\nroot = \"{site}\"\n\
             {sites}\
             [server]\nworkers = {}\n{patience}\
             {}",
            self.address, self.memory, self.workers, self.hook,
        )
    }
}

fn section(remote: &Remote) -> String {
    let master = remote.master_key.as_ref().map_or_else(String::new, |key| {
        format!("[keys]\nmaster = \"file:{}\"\n", key.display())
    });
    format!("[store]\nurl = \"{}\"\n{master}", remote.url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_store_is_named_by_its_url() {
        let mut sekisho = Sekisho {
            fixture: Folder(Path::new("/f")),
            store: Store::Files,
            memory: "1MiB",
            site: Path::new("/site"),
            php: Path::new("/php"),
            programs: None,
            catalog: Path::new("/c"),
            remote: None,
            redis_cache: None,
            address: "127.0.0.1:443".parse().unwrap(),
            admin: None,
            proxies: false,
            hook: String::new(),
            is_patient: false,
            workers: 1,
        };
        let url = "url = \"files:/f/hosts/{host}.crt,/f/hosts/{host}.key\"";
        assert!(sekisho.config().contains(url));
        sekisho.store = Store::Sqlite;
        assert!(sekisho.config().contains("url = \"sqlite:/c/hosts.db\""));
        sekisho.store = Store::Postgres(Copies::Kept);
        sekisho.remote = Some(Remote {
            url: "postgres://db/certs".to_owned(),
            master_key: Some("/c/master.key".into()),
        });
        let config = sekisho.config();
        assert!(config.contains("url = \"postgres://db/certs\"\n[keys]\nmaster = "));
        sekisho.store = Store::RedisCache;
        sekisho.redis_cache = Some("redis://cache".to_owned());
        let cache = "[cache]\nmemory = \"1MiB\"\ndisk = \"off\"\nredis = \"redis://cache\"\n";
        assert!(sekisho.config().contains(cache));
        sekisho.proxies = true;
        sekisho.programs = Some(Path::new("/programs"));
        assert!(sekisho.config().contains(", \"cgi:/programs\"]\n"));
    }
}
