//! Functions that a script calls.

mod alert;
mod arguments;
mod cache;
mod clients;
mod fields;
mod http;
mod log;
mod prelude;
mod redis;
mod sql;
mod tls;
mod waiting;

use std::sync::Arc;

use mlua::{IntoLua, Lua, Result, Table, Value};

use crate::imports::Imports;
use crate::run::state::Current;

pub(crate) use prelude::install as install_prelude;
use waiting::Waiting;

pub(crate) use waiting::Reply;

/// Installs all functions, before the sandbox is closed. Returns the argument of
/// `handshake`: all runs have one, whose fields and methods are those of the current run.
pub(crate) fn install<I: Imports>(lua: &Lua, current: &Arc<Current<I>>) -> Result<Table> {
    let globals = lua.globals();
    let waiting = Waiting::new(lua, current)?;
    http::install(lua, &waiting, &globals)?;
    redis::install(lua, &waiting, &globals)?;
    sql::install(lua, &waiting, &globals)?;
    cache::install(lua, current, &globals)?;
    log::install(lua, current, &globals)?;
    let methods = tls::methods(lua, current, &waiting)?;
    let missing = lua.create_table()?;
    missing.raw_set("__index", fields::index(lua, current)?)?;
    methods.set_metatable(Some(missing))?;
    methods.set_readonly(true);
    let tls = lua.create_table()?;
    tls.set_metatable(Some(metatable(lua, methods)?))?;
    tls.set_readonly(true);
    for name in REMOVED {
        globals.raw_set(name, Value::Nil)?;
    }
    let unknown = metatable(lua, lua.create_function(unknown_global)?)?;
    unknown.set_readonly(true);
    globals.set_metatable(Some(unknown))?;
    Ok(tls)
}

/// Makes the metatable of an object with functions: other names are errors.
fn without_others(lua: &Lua, object: &'static str) -> Result<Table> {
    let unknown = lua.create_function(move |_, (_, name): (Value, Value)| -> Result<Value> {
        let name = name.to_string()?;
        let what = format!("{object} has no `{name}` (docs/hook.md lists all functions)");
        Err(mlua::Error::RuntimeError(what))
    })?;
    metatable(lua, unknown)
}

/// Makes a metatable that scripts can't get. `index` has what its object has not itself.
fn metatable(lua: &Lua, index: impl IntoLua) -> Result<Table> {
    let metatable = lua.create_table()?;
    metatable.raw_set("__index", index)?;
    metatable.raw_set("__metatable", false)?;
    Ok(metatable)
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
