//! Clients that wait without blocking: `redis` and `http`.

use std::fmt::Display;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};
use sekisho_certs::printable;
use tokio::time::Instant;

use super::arguments::Arguments;
use crate::imports::{HttpAnswer, HttpRequest, Imports, RedisCommand, RedisReply};
use crate::report::Called;
use crate::run::Run;
use crate::state::Current;

/// Installs `redis` and `http`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    current: &Arc<Current<I>>,
    globals: &Table,
) -> Result<()> {
    install_redis(lua, current, globals)?;
    let http = lua.create_table()?;
    let of = Arc::clone(current);
    let function = lua.create_async_function(move |lua, given: MultiValue| {
        let run = of.run();
        async move { get(&lua, &*run?, given).await }
    })?;
    http.raw_set("get", function)?;
    http.set_readonly(true);
    globals.raw_set("http", http)
}

/// Waits for a client's answer, as one of the run's calls. An error of the client is
/// raised: it is never an absence.
pub(super) async fn wait<I: Imports, T>(
    run: &Run<I>,
    what: impl FnOnce() -> String,
    call: impl Future<Output = std::result::Result<T, String>>,
    answer: impl FnOnce(&T) -> String,
) -> Result<T> {
    run.admitted().await?;
    let begun = Instant::now();
    let result = call.await;
    if run.report.is_some() {
        let answer = match &result {
            Ok(value) => answer(value),
            Err(error) => format!("failed: {}", printable(error)),
        };
        let called = Called {
            what: printable(&what()),
            took: begun.elapsed(),
            answer,
        };
        run.report(|report| report.calls.push(called));
    }
    result.map_err(Error::RuntimeError)
}

/// Checks the size of an answer.
pub(super) fn bounded(size: usize, from: &dyn Display) -> Result<()> {
    match size > MAX_ANSWER {
        true => Err(Error::RuntimeError(format!(
            "{from} answered with {size} bytes (at most 1 MiB)"
        ))),
        false => Ok(()),
    }
}

/// Commands that a client has as methods.
#[derive(Clone, Copy)]
enum Command {
    Get,
    Mget,
    Hgetall,
}

/// Installs `redis`. A client is a table with its URL: all of a state share the
/// methods.
fn install_redis<I: Imports>(lua: &Lua, current: &Arc<Current<I>>, globals: &Table) -> Result<()> {
    let methods = lua.create_table()?;
    for (name, command) in [
        ("get", Command::Get),
        ("mget", Command::Mget),
        ("hgetall", Command::Hgetall),
    ] {
        let of = Arc::clone(current);
        let function = lua.create_async_function(move |lua, given: MultiValue| {
            let run = of.run();
            async move { redis(&lua, &*run?, command, given).await }
        })?;
        methods.raw_set(name, function)?;
    }
    let client = client(lua, methods)?;
    let function = lua.create_function(move |lua, given: MultiValue| {
        let mut arguments = Arguments::of("redis", given);
        let url = arguments.utf8("URL", MAX_URL)?;
        arguments.end()?;
        object(lua, &client, &url)
    })?;
    globals.raw_set("redis", function)
}

/// Makes the metatable of a kind of client.
pub(super) fn client(lua: &Lua, methods: Table) -> Result<Table> {
    methods.set_readonly(true);
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", methods)?;
    metatable.raw_set("__metatable", false)?;
    Ok(metatable)
}

/// Makes a client of this kind.
pub(super) fn object(lua: &Lua, kind: &Table, name: &str) -> Result<Table> {
    let object = lua.create_table_with_capacity(0, 1)?;
    object.raw_set("name", name)?;
    object.set_metatable(Some(kind.clone()))?;
    object.set_readonly(true);
    Ok(object)
}

async fn redis<I: Imports>(
    lua: &Lua,
    run: &Run<I>,
    command: Command,
    given: MultiValue,
) -> Result<MultiValue> {
    let (mut arguments, url) = match command {
        Command::Get => Arguments::of_client("redis:get", given)?,
        Command::Mget => Arguments::of_client("redis:mget", given)?,
        Command::Hgetall => Arguments::of_client("redis:hgetall", given)?,
    };
    let command = match command {
        Command::Get => RedisCommand::Get(arguments.text("key", MAX_KEY)?),
        Command::Hgetall => RedisCommand::Hgetall(arguments.text("key", MAX_KEY)?),
        Command::Mget => {
            let count = arguments.left();
            if !(1..=MAX_KEYS).contains(&count) {
                return Err(arguments.error("takes 1 to 64 keys", "give each as an argument"));
            }
            let keys = (0..count).map(|_| arguments.text("key", MAX_KEY));
            RedisCommand::Mget(keys.collect::<Result<_>>()?)
        }
    };
    arguments.end()?;
    let is_kind = |reply: &RedisReply| match (&command, reply) {
        (RedisCommand::Mget(keys), RedisReply::Values(values)) => keys.len() == values.len(),
        (RedisCommand::Get(_), RedisReply::Value(_)) => true,
        (RedisCommand::Hgetall(_), RedisReply::Fields(_)) => true,
        _ => false,
    };
    let what = || format!("redis {command}");
    let call = run.shared.imports.redis(&url, command.clone());
    let reply = wait(run, what, call, RedisReply::to_string).await?;
    bounded(reply.size(), &"redis")?;
    match is_kind(&reply) {
        true => values(lua, reply),
        false => Err(Error::runtime(
            "Redis answered with another kind of value (look at the key's type)",
        )),
    }
}

fn values(lua: &Lua, reply: RedisReply) -> Result<MultiValue> {
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

async fn get<I: Imports>(lua: &Lua, run: &Run<I>, given: MultiValue) -> Result<Table> {
    let mut arguments = Arguments::of("http.get", given);
    let url = arguments.utf8("URL", MAX_URL)?;
    let mut request = HttpRequest {
        url,
        headers: Vec::new(),
        timeout: run.deadline.saturating_duration_since(Instant::now()),
    };
    match arguments.next() {
        Value::Nil => {}
        Value::Table(given) => options(&arguments, &given, &mut request)?,
        other => {
            let wanted = format!("a table, not {}", other.type_name());
            return Err(arguments.wrong("second argument", &wanted));
        }
    }
    arguments.end()?;
    let what = format!("http.get({})", request.url);
    let call = run.shared.imports.http_get(request);
    let show = |answer: &HttpAnswer| format!("{}, {} bytes", answer.status, answer.body.len());
    let answer = wait(run, || what, call, show).await?;
    bounded(answer.body.len(), &"http.get")?;
    let table = lua.create_table_with_capacity(0, 3)?;
    table.raw_set("status", answer.status)?;
    table.raw_set("body", lua.create_string(answer.body)?)?;
    table.raw_set("headers", lua.create_table_from(answer.headers)?)?;
    Ok(table)
}

/// Reads `{headers = {…}, timeout = …}`.
fn options(arguments: &Arguments, given: &Table, request: &mut HttpRequest) -> Result<()> {
    for pair in given.pairs::<LuaString, Value>() {
        let (name, value) = pair?;
        match (&*name.to_str()?, value) {
            ("headers", Value::Table(headers)) => {
                for field in headers.pairs::<String, String>() {
                    request.headers.push(field?);
                }
                if request.headers.len() > MAX_HEADERS {
                    return Err(arguments.wrong("headers", "at most 32 fields"));
                }
            }
            ("timeout", Value::Integer(seconds @ 1..=600)) => {
                let given = Duration::from_secs(seconds.unsigned_abs());
                request.timeout = request.timeout.min(given);
            }
            ("timeout", Value::Number(seconds)) if (0.001..=600.0).contains(&seconds) => {
                let given = Duration::from_secs_f64(seconds);
                request.timeout = request.timeout.min(given);
            }
            _ => {
                let wanted = "{headers = {…}, timeout = seconds} and nothing else";
                return Err(arguments.wrong("second argument", wanted));
            }
        }
    }
    Ok(())
}

const MAX_URL: usize = 8 * 1024;
const MAX_KEY: usize = 4 * 1024;
const MAX_KEYS: usize = 64;
const MAX_HEADERS: usize = 32;
/// Bytes of one answer.
const MAX_ANSWER: usize = 1024 * 1024;
