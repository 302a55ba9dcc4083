//! A script that a server runs as one step.

use std::fmt::Write as _;

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use redis::{Pipeline, ServerError, Value};

use crate::redis::connection::ReconnectingConnection;
use crate::redis::dial::text;
use sekisho_certs::store::{Result, StoreError};

/// Known to a server by the digest of its text, once it has seen the text.
pub(super) struct Script {
    text: &'static str,
    digest: String,
}

impl Script {
    pub(super) fn new(text: &'static str) -> Self {
        let mut name = String::with_capacity(40);
        for byte in digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes()).as_ref() {
            // Writing into a text does not fail.
            let _ = write!(name, "{byte:02x}");
        }
        Self { text, digest: name }
    }

    /// Runs it in one round trip; in two where the server does not know it.
    pub(super) async fn run(
        &self,
        link: &ReconnectingConnection,
        key: &str,
        args: &[Arg<'_>],
    ) -> Result<Value> {
        let known = command("EVALSHA", &self.digest, key, args);
        match sent(link, &known).await? {
            Value::ServerError(error) if error.code() == "NOSCRIPT" => {
                let whole = command("EVAL", self.text, key, args);
                answer(sent(link, &whole).await?)
            }
            other => answer(other),
        }
    }
}

/// An argument of a script.
#[derive(Clone, Copy)]
pub(super) enum Arg<'a> {
    Text(&'a str),
    Bytes(&'a [u8]),
    Number(u64),
}

fn command(name: &str, script: &str, key: &str, args: &[Arg<'_>]) -> Pipeline {
    let mut pipeline = redis::pipe();
    pipeline.cmd(name).arg(script).arg(1).arg(key);
    for arg in args {
        match *arg {
            Arg::Text(text) => pipeline.arg(text),
            Arg::Bytes(bytes) => pipeline.arg(bytes),
            Arg::Number(number) => pipeline.arg(number),
        };
    }
    pipeline
}

async fn sent(link: &ReconnectingConnection, command: &Pipeline) -> Result<Value> {
    let mut answers = link.send(command).await?;
    answers
        .pop()
        .ok_or_else(|| StoreError::Unavailable("Redis gave no answer".into()))
}

fn answer(value: Value) -> Result<Value> {
    match value {
        Value::ServerError(error) => Err(refused(&error)),
        other => Ok(other),
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
    StoreError::Unavailable(format!("Redis says {}{hint}", text(error)).into())
}
