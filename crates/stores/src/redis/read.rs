//! Replies of a server about a key.

use redis::{ServerError, Value};
use zeroize::Zeroizing;

use super::connection::RedisConnection;
use super::dial::text;
use super::reply_limit::TOO_LONG;
use crate::fault::unavailable;
use crate::pem_pair::{Bytes, MAX_HALF};
use sekisho_certs::store::{Result, StoreError};

/// A server's reply about half a pair; none if there is no such key.
pub(super) type Reply = std::result::Result<Option<Bytes>, NoHalf>;

/// Reason why a reply is no half of a pair.
pub(super) enum NoHalf {
    /// The key holds something else: says what, and where.
    Unfit(String),
    /// The server gave no answer.
    Failed(StoreError),
}

/// Reads all keys by one MGET. Its reply for a key that holds no string is that
/// for a missing key, so EXISTS in the same write counts those that exist.
pub(super) async fn read(connection: &RedisConnection, keys: &[String]) -> Result<Vec<Reply>> {
    let mut commands = redis::pipe();
    commands.cmd("MGET").arg(keys).cmd("EXISTS").arg(keys);
    let mut answers = connection.send(&commands).await?;
    let (existing, values) = match (answers.pop(), answers.pop()) {
        (Some(Value::Int(existing)), Some(Value::Array(values))) => (existing, values),
        (_, Some(Value::ServerError(error))) | (Some(Value::ServerError(error)), _) => {
            return Err(refused(&error));
        }
        _ => return Err(strange()),
    };
    if values.len() != keys.len() {
        return Err(strange());
    }
    let strings = values.iter().filter(|value| **value != Value::Nil).count();
    let all_are_strings = usize::try_from(existing).is_ok_and(|existing| existing <= strings);
    let halves = keys.iter().zip(values).map(|(key, value)| match value {
        Value::Nil if !all_are_strings => {
            let keys = keys.join(", ");
            Err(NoHalf::Unfit(format!("one of {keys} holds no string")))
        }
        value => reply(key, value),
    });
    Ok(halves.collect())
}

/// Takes the value of one key.
pub(super) fn reply(key: &str, value: Value) -> Reply {
    let too_long = || {
        NoHalf::Unfit(format!(
            "{key} has over 1 MiB, or 4 MiB with others: no certificate or key"
        ))
    };
    match value {
        Value::BulkString(bytes) if bytes.len() > MAX_HALF => Err(too_long()),
        Value::BulkString(bytes) => Ok(Some(Zeroizing::new(bytes))),
        Value::Nil => Ok(None),
        Value::ServerError(error) => Err(match error.code() {
            TOO_LONG => too_long(),
            "WRONGTYPE" => NoHalf::Unfit(format!("{key} holds no string")),
            _ => NoHalf::Failed(refused(&error)),
        }),
        _ => Err(NoHalf::Failed(strange())),
    }
}

pub(super) fn refused(error: &ServerError) -> StoreError {
    let hint = match error.code() {
        "MOVED" | "ASK" | "CROSSSLOT" => "; it belongs to a cluster, write redis+cluster://",
        "NOPERM" => "; reading takes the commands MGET, EXISTS and PING, on a Cluster GETRANGE",
        _ => "",
    };
    unavailable(format!("Redis says {}{hint}", text(error)))
}

pub(crate) fn strange() -> StoreError {
    unavailable("Redis answered in a form that was not asked for")
}
