//! What a server says of a key.

use redis::{ServerError, Value};
use zeroize::Zeroizing;

use super::connection::ReconnectingConnection;
use super::dial::text;
use super::reply_limit::TOO_LONG;
use crate::pair::Bytes;
use sekisho_certs::store::{Result, StoreError};

/// What was said of one half of a pair.
pub(super) enum Said {
    There(Bytes),
    /// The server says that there is no such key.
    Missing,
    /// Something is there that is no half: says what, and where.
    Unfit(String),
    /// The server did not say.
    Failed(StoreError),
}

impl Said {
    /// What is there, if that is anything of use.
    pub(super) fn bytes(self) -> Option<Bytes> {
        match self {
            Self::There(bytes) => Some(bytes),
            Self::Missing | Self::Unfit(_) | Self::Failed(_) => None,
        }
    }
}

/// All keys in one MGET. It says of a key without a string what it says of
/// none; so the same write asks how many of them exist.
pub(super) async fn read(
    connection: &ReconnectingConnection,
    keys: &[String],
) -> Result<Vec<Said>> {
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
            Said::Unfit(format!("one of {} holds no string", keys.join(", ")))
        }
        value => said(key, value),
    });
    Ok(halves.collect())
}

/// What one value is worth.
pub(super) fn said(key: &str, value: Value) -> Said {
    match value {
        Value::BulkString(bytes) => Said::There(Zeroizing::new(bytes)),
        Value::Nil => Said::Missing,
        Value::ServerError(error) => match error.code() {
            TOO_LONG => Said::Unfit(format!("{key} has over 1 MiB: no certificate or key")),
            "WRONGTYPE" => Said::Unfit(format!("{key} holds no string")),
            _ => Said::Failed(refused(&error)),
        },
        _ => Said::Failed(strange()),
    }
}

fn refused(error: &ServerError) -> StoreError {
    let hint = match error.code() {
        "MOVED" | "ASK" | "CROSSSLOT" => "; it belongs to a cluster, write redis+cluster://",
        "NOPERM" => "; reading takes the commands MGET, EXISTS and PING, on a Cluster GET",
        _ => "",
    };
    StoreError::Unavailable(format!("Redis says {}{hint}", text(error)).into())
}

fn strange() -> StoreError {
    StoreError::Unavailable("Redis answered in a form that was not asked for".into())
}
