//! A store of PEM strings in Redis or Valkey, in the layout of the papers:
//! `redis://` and its relatives.

mod client;
mod cluster;
pub(crate) mod connection;
pub(crate) mod dial;
pub(crate) mod keys;
pub(crate) mod read;
mod reply_limit;
mod scan;
mod target;
#[cfg(test)]
mod tests;
pub(crate) mod url;

use tokio::runtime::Handle;

use self::cluster::Cluster;
use self::connection::RedisConnection;
use self::keys::Keys;
use self::read::{NoHalf, Reply};
use crate::pem_pair::{Half, PairRead, pair, read_until_fit};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::seal::OpenKey;
use sekisho_certs::store::{Answer, BoxFuture, Result, Store, StoreError};

pub use self::client::Hash;
pub use self::scan::Scanned;
pub use self::url::RedisUrl;

/// An entrance for fuzzing, which sets this.
#[cfg(fuzzing)]
pub mod fuzzing {
    pub use super::reply_limit::bounded;
}

/// Certificates and keys that others write into Redis, which is only read.
///
/// A host is absent if neither its key for the chain nor the one for the
/// private key exists, and neither do the wildcard's above it. A pair that is
/// incomplete or does not fit, a key that holds no string and a value over
/// 1 MiB are read again for a quarter of a second, since a renewal may just
/// be writing them; then they are an error.
///
/// A connection belongs to the runtime that was given at the start, and one to
/// each worker that asks ([`crate::worker`]). Each is made again by itself. Calls
/// fail at once while there is none.
#[derive(Debug)]
pub struct Redis {
    keys: Keys,
    server: Server,
}

/// The servers that hold the keys.
#[derive(Debug)]
enum Server {
    One(RedisConnection),
    Cluster(Cluster),
}

impl Redis {
    /// Starts to connect, and does not wait for it.
    ///
    /// # Errors
    /// [`StoreError::Refused`] names a file for TLS that can't be used.
    pub fn open(url: &RedisUrl, runtime: &Handle) -> Result<Self> {
        let refused = |why: String| StoreError::Refused(why.into());
        let server = match RedisConnection::open(url, runtime).map_err(refused)? {
            Some(server) => Server::One(server),
            None => Server::Cluster(Cluster::start(runtime, url).map_err(refused)?),
        };
        Ok(Self {
            keys: url.keys.clone(),
            server,
        })
    }

    /// Tells whether there is a connection; waits for the first attempt to make
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

    /// Reads the exact pair and the wildcard's above, once.
    async fn read_pairs(&self, name: &HostName) -> Result<PairRead> {
        let hosts = [Some(HostPattern::from(name)), name.wildcard()];
        let hosts: Vec<_> = hosts.into_iter().flatten().collect();
        let keys: Vec<_> = hosts.iter().flat_map(|host| self.keys.of(host)).collect();
        let replies = self.server.read(&keys).await?;
        let mut replies = keys.into_iter().zip(replies);
        for host in hosts {
            let (Some(chain), Some(key)) = (replies.next(), replies.next()) else {
                unreachable!("there is a reply for each key");
            };
            if let Some(pair) = pair_of(&host, chain, key)? {
                return Ok(pair);
            }
        }
        Ok(PairRead::Answer(Answer::absent()))
    }
}

impl Store for Redis {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(read_until_fit(move || self.read_pairs(name)))
    }
}

impl Server {
    /// Reads each key; the replies are in their order. They may end behind a first
    /// pair that is whole.
    async fn read(&self, keys: &[String]) -> Result<Vec<Reply>> {
        match self {
            Self::One(connection) => read::read(connection, keys).await,
            Self::Cluster(cluster) => cluster.read(keys).await,
        }
    }
}

/// Makes a pair of two replies; none if neither half is there.
fn pair_of(
    host: &HostPattern,
    chain: (String, Reply),
    key: (String, Reply),
) -> Result<Option<PairRead>> {
    match (chain, key) {
        ((_, Err(NoHalf::Failed(error))), _) | (_, (_, Err(NoHalf::Failed(error)))) => Err(error),
        ((_, Err(NoHalf::Unfit(why))), _) | (_, (_, Err(NoHalf::Unfit(why)))) => {
            Ok(Some(PairRead::Unfit(format!("host {host}: {why}"))))
        }
        ((place, Ok(bytes)), (key_place, Ok(key))) => {
            let chain = Half { place, bytes };
            let key = Half {
                place: key_place,
                bytes: key,
            };
            Ok(pair(host, chain, key))
        }
    }
}
