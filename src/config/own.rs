//! Files, addresses and environment variables that are the server's own.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sekisho_certs::seal::KeySource;
use sekisho_server::access_log::Target;
use sekisho_server::admin::Address;
use sekisho_server::site::{Guard, OwnAddress, OwnAddresses, OwnFiles, Site};
use sekisho_stores::Url;
use sekisho_stores::announced::Announced;
use sekisho_stores::own_file::{beside, of_database};
use sekisho_stores::postgres;
use sekisho_stores::url::StoreServer;

use super::hook::Hook;
use super::{Acme, Config, SecretSource};

impl Config {
    /// Lists the files that no site may serve: this configuration, the files with
    /// keys, tokens and hosts that it names, and the folders of the hook's keys.
    #[must_use]
    pub(crate) fn own_files(&self) -> OwnFiles {
        let keys = self.hook.iter().flat_map(|hook| hook.folders.clone());
        OwnFiles::new(self.own_paths()).with_keys(keys.collect())
    }

    /// Lists the addresses and sockets that no upstream of a host record may
    /// have: those that this server listens on, and those of its stores, name servers and
    /// CAs.
    #[must_use]
    pub(crate) fn own_addresses(&self) -> OwnAddresses {
        let served = self.acme.iter().flat_map(|acme| &acme.serve);
        let served = served.flat_map(|serve| &serve.addresses);
        let listeners = self.listen.https.iter().chain(&self.listen.http);
        let listeners = listeners.chain(served);
        let listeners = listeners.copied().map(OwnAddress::Listener);
        let admin = self.listen.admin.as_ref().map(|admin| match admin {
            Address::Tcp(address) => OwnAddress::Listener(*address),
            Address::Unix(path) => OwnAddress::Socket(path.clone()),
        });
        let redis = self.redis_cache.as_ref().map(|url| url.servers());
        let hook = self.hook.iter().flat_map(|hook| hook.sql.values());
        let databases = hook.flat_map(postgres::Url::servers);
        let stores = self.store.url.servers().into_iter();
        let stores = stores.chain(redis.into_iter().flatten()).chain(databases);
        let stores = stores.map(|server| match server {
            StoreServer::Https(host, port) => OwnAddress::Server(host, port),
            StoreServer::Port(port) => OwnAddress::Port(port),
            StoreServer::Unix(path) => OwnAddress::Socket(path),
        });
        let resolvers = self.acme.iter().flat_map(Acme::name_servers);
        let resolvers = resolvers.chain(self.name_servers.iter().copied());
        let resolvers = resolvers.map(|at| OwnAddress::Server(at.ip().to_string(), at.port()));
        let cas = self.acme.iter().flat_map(Acme::servers);
        let cas = cas.map(|(host, port)| OwnAddress::Private(host, port));
        let others = resolvers.chain(cas);
        OwnAddresses::new(listeners.chain(admin).chain(stores).chain(others))
    }

    /// Makes what judges sites by `[sites]`, and refuses upstreams these addresses.
    pub(crate) fn guard(&self, addresses: Arc<OwnAddresses>) -> Guard {
        let programs = self.site.programs().map(PathBuf::from).collect();
        Guard::new(self.allowed.clone(), self.own_files().with_keys(programs))
            .with_fields(self.named_fields.clone())
            .with_addresses(addresses)
    }

    /// Lists the ports of nodes that sentinels and Clusters of the configuration lead to.
    pub(crate) fn announced(&self) -> impl Iterator<Item = &Announced> {
        let redis = self.redis_cache.iter().map(|url| url.announced());
        self.store.url.announced().into_iter().chain(redis)
    }

    /// Lists the environment variables that hold secrets.
    pub(crate) fn secret_variables(&self) -> Vec<String> {
        let sources = self.secrets().filter_map(|secret| match secret {
            SecretSource::Env(name) => Some(name),
            SecretSource::File(_) => None,
        });
        let key = match &self.keys {
            Some(KeySource::Env(name)) => Some(name),
            _ => None,
        };
        sources.chain(key).cloned().collect()
    }

    /// Hides variables with secrets from the command that prints the master
    /// key.
    pub(crate) fn hide(&mut self, variables: Vec<String>) {
        if let Some(KeySource::Command { hidden, .. }) = &mut self.keys {
            hidden.extend(variables);
        }
    }

    /// Lists the sources of tokens and of the secrets of `[acme]`.
    fn secrets(&self) -> impl Iterator<Item = &SecretSource> {
        let tokens = self.listen.admin_token.iter().chain(&self.store.token);
        tokens.chain(self.acme.iter().flat_map(Acme::secrets))
    }

    fn own_paths(&self) -> Vec<PathBuf> {
        let mut files = vec![self.file.clone()];
        if let Some(KeySource::File(path)) = &self.keys {
            files.push(path.clone());
        }
        files.extend(self.secrets().filter_map(|secret| match secret {
            SecretSource::File(path) => Some(path.clone()),
            SecretSource::Env(_) => None,
        }));
        files.extend(self.tickets.clone());
        files.extend(self.access_log.iter().filter_map(|log| match &log.target {
            Target::File(path) => Some(path.clone()),
            Target::Stdout => None,
        }));
        // `apart` checks a `files:` store against the roots when the
        // configuration is read.
        files.extend(self.store.url.database().into_iter().flat_map(of_database));
        files.extend(self.store.url.client_key().map(Path::to_owned));
        let redis = self.redis_cache.as_ref().and_then(|url| url.key_file());
        files.extend(redis.map(Path::to_owned));
        files.extend(self.hook.iter().map(|hook| hook.script.clone()));
        if let Some(disk) = &self.cache.disk {
            files.extend(of_database(&disk.path));
            // The key that seals the disk cache of plain keys.
            files.push(beside(&disk.path, ".key"));
        }
        files
    }
}

/// Keeps the keys of a `files:` store and of the hook out of the folders that `[site]`
/// serves. A script reads whatever lies below a folder of the hook: none is served either.
pub(super) fn apart(store: &Url, hook: Option<&Hook>, site: &Site) -> Result<(), String> {
    let stored = store.key_folders();
    let hook = hook.map_or(&[][..], |hook| &hook.folders);
    for root in site.roots().map(fixed_folder) {
        let shown = root.display();
        if let Some(keys) = stored.iter().find(|keys| keys.starts_with(root)) {
            return Err(format!(
                "{shown} holds {}, where the store's private keys are; serve a folder beside it",
                keys.display()
            ));
        }
        let overlaps = |keys: &&PathBuf| keys.starts_with(root) || root.starts_with(keys);
        if let Some(keys) = hook.iter().find(overlaps) {
            return Err(format!(
                "{shown} holds, or lies in, {}, where [hook] folders says that private keys are; \
                 serve a folder beside it",
                keys.display()
            ));
        }
    }
    Ok(())
}

/// Returns the part of a root that depends neither on the host name nor on its
/// tenant.
fn fixed_folder(root: &str) -> &Path {
    match root.split_once('{') {
        None => Path::new(root),
        Some((fixed, _)) => {
            let end = fixed.rfind('/').unwrap_or(0);
            Path::new(if end == 0 { "/" } else { &fixed[..end] })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_with_keys_tokens_and_hosts_are_the_servers_own() {
        let listen = "listen.https = [\"127.0.0.1:0\"]\nlisten.admin = \"127.0.0.1:0\"\n\
                      listen.admin_token = \"file:admin\"\ntickets.key = \"file:tickets\"\n\
                      log.access = \"log\"\n";
        for (store, wanted) in [
            (
                "store.url = \"sqlite:a.db\"\ncache.redis = \"rediss://h?client_cert=c&client_key=redis.key\"\n",
                &[
                    "a.db",
                    "a.db-wal",
                    "a.db-shm",
                    "a.db-journal",
                    "master.key",
                    "redis.key",
                ][..],
            ),
            (
                "store.url = \"https://h/{host}\"\nstore.token = \"file:token\"\n\
                 cache.disk = \"copies\"\n",
                &[
                    "token",
                    "copies",
                    "copies-wal",
                    "copies-shm",
                    "copies-journal",
                    "copies.key",
                ],
            ),
            (
                "store.url = \"rediss://h?client_cert=c&client_key=redis.key\"\nkeys.master = \"file:k\"\n\
                 cache.disk = \"off\"\n",
                &["k", "redis.key"],
            ),
        ] {
            let file = Path::new("/etc/sekisho/sekisho.toml");
            let config = Config::parse(&format!("{listen}{store}"), file).unwrap();
            let mut found = config.own_paths();
            found.sort();
            let wanted = wanted
                .iter()
                .chain(&["sekisho.toml", "admin", "tickets", "log"]);
            let mut wanted: Vec<_> = wanted.map(|name| file.with_file_name(name)).collect();
            wanted.sort();
            assert_eq!(found, wanted, "{store}");
        }
    }
}
