//! `http.get`.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Error, Lua, LuaString, MultiValue, Result, Table, Value};
use tokio::time::Instant;

use super::arguments::Arguments;
use super::clients::{MAX_URL, bounded, wait};
use super::waiting::{Begun, Reply, Waiting};
use super::without_others;
use crate::imports::{HttpAnswer, HttpRequest, Imports};
use crate::run::Run;

/// Installs `http`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    waiting: &Waiting<'_, I>,
    globals: &Table,
) -> Result<()> {
    let http = lua.create_table()?;
    http.raw_set("get", waiting.function(get)?)?;
    http.set_metatable(Some(without_others(lua, "http")?))?;
    http.set_readonly(true);
    globals.raw_set("http", http)
}

fn get<I: Imports>(run: &Arc<Run<I>>, given: MultiValue) -> Result<Begun> {
    let mut arguments = Arguments::of("http.get", given);
    let url = arguments.utf8("URL", MAX_URL)?;
    let mut request = HttpRequest {
        url,
        headers: Vec::new(),
        timeout: run.deadline.saturating_duration_since(Instant::now()),
        client: run.hello.as_ref().map(|hello| hello.facts.client.ip()),
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
    run.calls().map_err(Error::RuntimeError)?;
    let run = Arc::clone(run);
    Ok(Begun::waits(async move {
        let what = run.report.as_ref();
        let what = what.map(|_| format!("http.get({})", request.shown()));
        let call = run.shared.imports.http_get(request);
        let show = |answer: &HttpAnswer| format!("{}, {} bytes", answer.status, answer.body.len());
        let answer = wait(&run, what, call, show).await?;
        bounded(answer.body.len(), &"http.get")?;
        Ok(Reply::Http(answer))
    }))
}

/// Makes the table of an answer.
pub(super) fn table(lua: &Lua, answer: HttpAnswer) -> Result<Table> {
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
            ("headers", Value::Table(given)) => {
                fields(arguments, &given, &mut request.headers)?;
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

/// Reads fields of a request. Each is measured before it is copied: many may share one
/// long text of the state, and copies are outside of its bound on memory.
fn fields(arguments: &Arguments, given: &Table, into: &mut Vec<(String, String)>) -> Result<()> {
    for field in given.pairs::<LuaString, LuaString>() {
        let (name, value) = field?;
        if into.len() == MAX_FIELDS {
            return Err(arguments.wrong("headers", "at most 32 fields"));
        }
        if name.as_bytes().len() + value.as_bytes().len() > MAX_FIELD {
            return Err(arguments.wrong("each header", "at most 8 KiB with its name"));
        }
        into.push((name.to_str()?.to_owned(), value.to_str()?.to_owned()));
    }
    Ok(())
}

const MAX_FIELDS: usize = 32;
/// Bytes of a field's name and value: servers take no longer ones.
const MAX_FIELD: usize = 8 * 1024;
