//! `http.get`.

use std::sync::Arc;
use std::time::Duration;

use mlua::{Lua, LuaString, MultiValue, Result, Table, Value};
use tokio::time::Instant;

use super::arguments::Arguments;
use super::clients::{MAX_URL, bounded, wait};
use crate::imports::{HttpAnswer, HttpRequest, Imports};
use crate::run::Run;
use crate::state::Current;

/// Installs `http`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    current: &Arc<Current<I>>,
    globals: &Table,
) -> Result<()> {
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

async fn get<I: Imports>(lua: &Lua, run: &Run<I>, given: MultiValue) -> Result<Table> {
    let mut arguments = Arguments::of("http.get", given);
    let url = arguments.utf8("URL", MAX_URL)?;
    let mut request = HttpRequest {
        url,
        headers: Vec::new(),
        timeout: run.deadline.saturating_duration_since(Instant::now()),
        client: run.hello.as_ref().map(|hello| hello.client_addr.ip()),
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
    let what = format!("http.get({})", request.shown());
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

const MAX_HEADERS: usize = 32;
