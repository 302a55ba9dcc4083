//! `redis(url)`: `get`, `mget`, `hgetall`.

use std::sync::Arc;

use mlua::{Error, Lua, MultiValue, Result, Table, Value};

use super::arguments::Arguments;
use super::clients::{self, MAX_URL, bounded, wait};
use super::waiting::{Begun, Reply, Waiting};
use crate::imports::{Imports, RedisCommand, RedisReply};
use crate::run::Run;

/// Commands that a client has as methods.
#[derive(Clone, Copy)]
enum Command {
    Get,
    Mget,
    Hgetall,
}

/// Installs `redis`. A client is a table with its URL: all of a state share the
/// methods.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    waiting: &Waiting<'_, I>,
    globals: &Table,
) -> Result<()> {
    let methods = lua.create_table()?;
    for (name, command) in [
        ("get", Command::Get),
        ("mget", Command::Mget),
        ("hgetall", Command::Hgetall),
    ] {
        let function = waiting.function(move |run, given| redis(run, command, given))?;
        methods.raw_set(name, function)?;
    }
    clients::install(lua, globals, "redis", ("URL", MAX_URL), methods)
}

fn redis<I: Imports>(run: &Arc<Run<I>>, command: Command, given: MultiValue) -> Result<Begun> {
    let (mut arguments, url) = match command {
        Command::Get => Arguments::of_client("redis:get", given)?,
        Command::Mget => Arguments::of_client("redis:mget", given)?,
        Command::Hgetall => Arguments::of_client("redis:hgetall", given)?,
    };
    let count = arguments.left();
    let sent = match command {
        Command::Get => RedisCommand::Get(arguments.text("key", MAX_KEY)?),
        Command::Hgetall => RedisCommand::Hgetall(arguments.text("key", MAX_KEY)?),
        Command::Mget => {
            if !(1..=MAX_KEYS).contains(&count) {
                return Err(arguments.error("takes 1 to 64 keys", "give each as an argument"));
            }
            let keys = (0..count).map(|_| arguments.text("key", MAX_KEY));
            RedisCommand::Mget(keys.collect::<Result<_>>()?)
        }
    };
    arguments.end()?;
    run.calls().map_err(Error::RuntimeError)?;
    let run = Arc::clone(run);
    // A function of its own would have a second place for each argument: each run that
    // waits has this future.
    Ok(Begun::waits(async move {
        let what = run.report.as_ref().map(|_| format!("redis {sent}"));
        let call = run.shared.imports.redis(&url, sent);
        let reply = wait(&run, what, call, RedisReply::to_string).await?;
        bounded(reply.size(), &"redis")?;
        let fits = match (command, &reply) {
            (Command::Mget, RedisReply::Values(values)) => values.len() == count,
            (Command::Get, RedisReply::Value(_)) | (Command::Hgetall, RedisReply::Fields(_)) => {
                true
            }
            _ => false,
        };
        match fits {
            true => Ok(Reply::Redis(reply)),
            false => Err(Error::runtime(
                "Redis answered with another kind of value (look at the key's type)",
            )),
        }
    }))
}

pub(super) fn values(lua: &Lua, reply: RedisReply) -> Result<MultiValue> {
    let text = |value: Option<Vec<u8>>| match value {
        None => Ok(Value::Nil),
        Some(value) => Ok(Value::String(lua.create_string(value)?)),
    };
    match reply {
        RedisReply::Value(value) => Ok([text(value)?].into_iter().collect()),
        RedisReply::Values(values) => values.into_iter().map(text).collect(),
        RedisReply::Fields(fields) if fields.is_empty() => Ok([Value::Nil].into_iter().collect()),
        RedisReply::Fields(fields) => {
            let table = lua.create_table_with_capacity(0, fields.len())?;
            for (name, value) in fields {
                table.raw_set(lua.create_string(name)?, lua.create_string(value)?)?;
            }
            Ok([Value::Table(table)].into_iter().collect())
        }
    }
}

const MAX_KEY: usize = 4 * 1024;
const MAX_KEYS: usize = 64;
