//! A script that a server runs as one step.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use redis::{Pipeline, ServerError, Value};

use crate::fault::unavailable;
use crate::redis::connection::RedisConnection;
use crate::redis::dial::text;
use crate::redis::read::strange;
use sekisho_certs::store::{Result, StoreError};

/// Known to a server by the digest of its text, once it has seen the text.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let digest = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        let hex = digest.as_ref().iter().map(|byte| format!("{byte:02x}"));
        Self {
            text,
            digest: hex.collect(),
        }
    }

    /// Runs it in one round trip; in two where the server does not know it.
    pub(super) async fn run(
        &self,
        connection: &RedisConnection,
        key: &str,
        args: impl Fn(&mut Pipeline),
    ) -> Result<Value> {
        for (command, script) in [("EVALSHA", self.digest.as_str()), ("EVAL", self.text)] {
            let mut pipeline = redis::pipe();
            pipeline.cmd(command).arg(script).arg(1).arg(key);
            args(&mut pipeline);
            match connection.send(&pipeline).await?.pop() {
                Some(Value::ServerError(error)) if error.code() == "NOSCRIPT" => {}
                Some(Value::ServerError(error)) => return Err(refused(&error)),
                Some(reply) => return Ok(reply),
                None => break,
            }
        }
        Err(strange())
    }

    /// Runs one that answers with a word: whether that is `done`.
    pub(super) async fn is_done(
        &self,
        connection: &RedisConnection,
        key: &str,
        args: impl Fn(&mut Pipeline),
    ) -> Result<bool> {
        match self.run(connection, key, args).await? {
            Value::BulkString(word) => Ok(word == b"done"),
            _ => Err(strange()),
        }
    }
}

fn refused(error: &ServerError) -> StoreError {
    let hint = match error.code() {
        "MOVED" | "ASK" | "CROSSSLOT" | "CLUSTERDOWN" => {
            "; this is a cluster, which can be no cache before a store"
        }
        "NOPERM" => "; docs/stores.md lists the commands that the cache takes",
        "OOM" => "; its memory is full, set maxmemory-policy allkeys-lru",
        _ => "",
    };
    unavailable(format!("Redis says {}{hint}", text(error)))
}
