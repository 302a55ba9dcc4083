//! Reads for an operator's script: strings and hashes under keys of its choice.

use super::read::{NoHalf, Reply, refused, reply, strange};
use super::{Redis, Server};
use crate::pem_pair::Bytes;
use redis::{Pipeline, Value};
use sekisho_certs::store::{Result, StoreError};

/// The fields of a hash, each with its value.
pub type Hash = Vec<(Bytes, Bytes)>;

/// Values have at most 1 MiB, and replies at most 4 MiB.
impl Redis {
    /// Reads the strings of some keys, in their order; None for a key that does not
    /// exist. On a Cluster each key is read by itself.
    ///
    /// # Errors
    /// [`StoreError::Failed`] if a key holds no string, or one over 1 MiB, else what keeps
    /// the server from answering.
    pub async fn strings(&self, keys: &[String]) -> Result<Vec<Option<Bytes>>> {
        let replies = match &self.server {
            // MGET would not tell a key of another type from a missing one.
            Server::One(connection) => {
                let mut commands = redis::pipe();
                for key in keys {
                    commands.cmd("GET").arg(key);
                }
                let values = connection.send(&commands).await?;
                keys.iter()
                    .zip(values)
                    .map(|(key, value)| reply(key, value))
                    .collect()
            }
            Server::Cluster(cluster) => cluster.read_all(keys).await?,
        };
        replies.into_iter().map(string).collect()
    }

    /// Reads the hash of a key; None if the key does not exist.
    ///
    /// # Errors
    /// Like [`Self::strings`], and on a Cluster, where a hash has no bound.
    pub async fn hash(&self, key: &str) -> Result<Option<Hash>> {
        let Server::One(connection) = &self.server else {
            let why = "hgetall is not available on a Redis Cluster, whose hashes have no bound: \
                       keep strings, and read them with get or mget";
            return Err(StoreError::Refused(why.into()));
        };
        let mut commands = Pipeline::new();
        commands.cmd("HGETALL").arg(key);
        let value = connection.send(&commands).await?.pop();
        let items = match value.ok_or_else(strange)? {
            Value::Array(items) => items,
            Value::ServerError(error) if error.code() == "WRONGTYPE" => {
                return Err(StoreError::Failed(format!("{key} holds no hash").into()));
            }
            Value::ServerError(error) => return Err(refused(&error)),
            _ => return Err(strange()),
        };
        let mut strings = items.into_iter().map(|item| string(reply(key, item)));
        let mut hash = Hash::new();
        while let (Some(field), value) = (strings.next(), strings.next()) {
            let (Some(field), Some(value)) = (field?, value.transpose()?.flatten()) else {
                return Err(strange());
            };
            hash.push((field, value));
        }
        Ok((!hash.is_empty()).then_some(hash))
    }
}

fn string(reply: Reply) -> Result<Option<Bytes>> {
    reply.map_err(|none| match none {
        NoHalf::Unfit(why) => StoreError::Failed(why.into()),
        NoHalf::Failed(error) => error,
    })
}
