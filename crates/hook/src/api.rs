//! Functions that a script calls.

mod alert;
mod arguments;
mod cache;
mod clients;
mod fields;
mod http;
mod log;
mod redis;
mod sql;
mod tls;

use std::collections::BTreeSet;
use std::sync::Arc;

use mlua::{Function, Lua, Result, Table, Value};

use crate::hello::Hello;
use crate::imports::Imports;
use crate::state::{Current, State};

/// Installs all functions, before the sandbox is closed. Returns the metatable of
/// `tls`.
pub(crate) fn install<I: Imports>(lua: &Lua, current: &Arc<Current<I>>) -> Result<Table> {
    lua.load(PRELUDE).set_name("=prelude").exec()?;
    let globals = lua.globals();
    http::install(lua, current, &globals)?;
    redis::install(lua, current, &globals)?;
    sql::install(lua, current, &globals)?;
    cache::install(lua, current, &globals)?;
    log::install(lua, current, &globals)?;
    let methods = tls::methods(lua, current)?;
    let missing = lua.create_table()?;
    missing.raw_set("__index", fields::index(lua, current)?)?;
    methods.set_metatable(Some(missing))?;
    methods.set_readonly(true);
    let tls = lua.create_table()?;
    tls.raw_set("__index", methods)?;
    tls.raw_set("__metatable", false)?;
    for name in REMOVED {
        globals.raw_set(name, Value::Nil)?;
    }
    let unknown = lua.create_table()?;
    unknown.raw_set("__index", lua.create_function(unknown_global)?)?;
    unknown.raw_set("__metatable", false)?;
    unknown.set_readonly(true);
    globals.set_metatable(Some(unknown))?;
    Ok(tls)
}

/// Returns the names of all methods: of `tls`, of clients, and of `cache`. Asks a state
/// of its own, which no script has changed.
pub(crate) fn methods<I: Imports>() -> Result<BTreeSet<String>> {
    let lua = State::<I>::without_script()?;
    let tls = install(&lua, &Arc::new(Current::<I>::default()))?;
    let globals = lua.globals();
    let mut tables = vec![tls.raw_get::<Table>("__index")?];
    for name in ["redis", "sql"] {
        let client: Table = globals.get::<Function>(name)?.call("name")?;
        let kind = client
            .metatable()
            .expect("clients have their methods there");
        tables.push(kind.raw_get("__index")?);
    }
    for name in ["cache", "http"] {
        tables.push(globals.get(name)?);
    }
    let names = tables
        .iter()
        .flat_map(|table| table.pairs::<String, Value>());
    names.map(|pair| Ok(pair?.0)).collect()
}

/// Makes the argument of `handshake`: a table with the server name, which most
/// scripts read; the other fields are made when they are read.
pub(crate) fn argument<I: Imports>(state: &State<I>, hello: &Hello) -> Result<Table> {
    let tls = state.lua.create_table_with_capacity(0, 1)?;
    if let Some(name) = &hello.server_name {
        tls.raw_set("server_name", name.as_str())?;
    }
    tls.set_metatable(Some(state.tls.clone()))?;
    tls.set_readonly(true);
    Ok(tls)
}

fn unknown_global(_: &Lua, (_, name): (Value, Value)) -> Result<Value> {
    let name = name.to_string()?;
    let hint = match &*name {
        "print" => "use log",
        "os" | "io" | "debug" | "require" | "loadstring" | "load" | "dofile" => {
            "scripts are sandboxed"
        }
        "coroutine" => "clients wait by themselves, and block nobody",
        "ngx" | "Nginx" => "docs/hook.md says what stands for it",
        _ => "docs/hook.md lists all functions; declare variables with local",
    };
    let what = format!("there is no global `{name}` ({hint})");
    Err(mlua::Error::RuntimeError(what))
}

/// Functions that sandboxes must not have, or that make no sense here.
const REMOVED: [&str; 8] = [
    "collectgarbage",
    "coroutine",
    "gcinfo",
    "getfenv",
    "loadstring",
    "print",
    "require",
    "setfenv",
];

const PRELUDE: &str = include_str!("api/prelude.luau");
