//! A store of PEM strings in Redis or Valkey, in the layout of the papers:
//! `redis://` and its relatives. [`level`] is another use of a server: copies
//! before a catalog.

mod cluster;
mod connection;
mod dial;
mod keys;
pub mod level;
mod read;
mod reply_limit;
mod sentinel;
#[cfg(test)]
mod tests;
mod tls;
mod url;

use std::fmt;
use std::sync::Arc;

use tokio::runtime::Handle;

use self::cluster::Cluster;
use self::connection::ReconnectingConnection;
use self::dial::Dialer;
use self::keys::Keys;
use self::read::Said;
use self::sentinel::Sentinels;
use self::url::Kind;
use crate::pair::{Half, Reading, pair, settled};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};

pub use self::url::RedisUrl;

/// Certificates and keys that others write into Redis. It is only read.
///
/// A host is absent if neither its key for the chain nor the one for the
/// private key exists, and neither do the wildcard's above it. A pair that is
/// incomplete or does not fit, a key that holds no string and a value over
/// 1 MiB are read again for a quarter of a second, since a renewal may just
/// be writing them; then they are an error.
///
/// Connections belong to the runtime that was given at the start, and one each
/// to those that serve ([`super::near`]); they are made again by themselves,
/// and calls fail at once while there are none.
pub struct Redis {
    keys: Keys,
    server: Server,
}

/// Whom to ask for a key.
enum Server {
    One(ReconnectingConnection),
    Cluster(Cluster),
}

impl Redis {
    /// Starts to connect, and does not wait for it.
    ///
    /// # Errors
    /// [`StoreError::Refused`] names a file for TLS that can't be used.
    pub fn open(url: &RedisUrl, runtime: &Handle) -> Result<Self> {
        let server = server(url, runtime);
        Ok(Self {
            keys: url.keys.clone(),
            server: server.map_err(|why| StoreError::Refused(why.into()))?,
        })
    }

    /// Whether there is a connection; waits for the first attempt to make
    /// one. On a Cluster, all nodes are asked.
    ///
    /// # Errors
    /// Says why there is none.
    pub async fn reach(&self) -> Result<()> {
        match &self.server {
            Server::One(connection) => connection.reach().await,
            Server::Cluster(cluster) => cluster.reach().await,
        }
    }

    /// One look at the exact pair and the wildcard's above.
    async fn look(&self, name: &HostName) -> Result<Reading> {
        let hosts = [Some(HostPattern::from(name)), name.wildcard()];
        let hosts: Vec<_> = hosts.into_iter().flatten().collect();
        let keys: Vec<_> = hosts.iter().flat_map(|host| self.keys.of(host)).collect();
        let said = self.server.read(&keys).await?;
        let mut said = keys.into_iter().zip(said);
        for host in hosts {
            let (Some(chain), Some(key)) = (said.next(), said.next()) else {
                unreachable!("something was said of each key");
            };
            if let Some(reading) = judged(&host, chain, key)? {
                return Ok(reading);
            }
        }
        Ok(Reading::Answer(Answer::Absent))
    }
}

impl Store for Redis {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(settled(move || self.look(name)))
    }
}

impl fmt::Debug for Redis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.server {
            Server::One(connection) => f.debug_tuple("Redis").field(connection).finish(),
            Server::Cluster(cluster) => f.debug_tuple("Redis").field(cluster).finish(),
        }
    }
}

impl Server {
    /// What is said of each key, in their order.
    async fn read(&self, keys: &[String]) -> Result<Vec<Said>> {
        match self {
            Self::One(connection) => read::read(connection, keys).await,
            Self::Cluster(cluster) => Ok(cluster.read(keys).await),
        }
    }
}

/// Whom to ask, without waiting for anybody.
fn server(url: &RedisUrl, runtime: &Handle) -> std::result::Result<Server, String> {
    let tls = url.tls.as_ref().map(tls::config).transpose()?;
    let dialer = Dialer::new(&url.login, url.database, tls.clone());
    let nodes = url.nodes.clone();
    Ok(match &url.kind {
        Kind::Cluster => Server::Cluster(Cluster::start(runtime, nodes, dialer)),
        Kind::Single => Server::One(ReconnectingConnection::to_node(runtime, &nodes[0], &dialer)),
        Kind::Sentinel { master, login } => {
            let sentinels = Arc::new(Sentinels {
                nodes,
                name: master.clone(),
                to_sentinel: Dialer::new(login, 0, tls),
                to_master: dialer,
            });
            Server::One(ReconnectingConnection::start(
                runtime,
                master.clone(),
                move || {
                    let sentinels = Arc::clone(&sentinels);
                    async move { sentinels.dial().await }
                },
            ))
        }
    })
}

/// None if neither half is there.
fn judged(
    host: &HostPattern,
    chain: (String, Said),
    key: (String, Said),
) -> Result<Option<Reading>> {
    match (chain, key) {
        ((_, Said::Failed(error)), _) | (_, (_, Said::Failed(error))) => Err(error),
        ((_, Said::Unfit(why)), _) | (_, (_, Said::Unfit(why))) => {
            Ok(Some(Reading::Unfit(format!("host {host}: {why}"))))
        }
        (chain, key) => {
            let half = |(place, said): (String, Said)| Half {
                place,
                bytes: said.bytes(),
            };
            Ok(pair(host, half(chain), half(key)))
        }
    }
}
