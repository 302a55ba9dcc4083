//! Check of the names in a script, before any handshake meets them.

use std::collections::BTreeSet;

use mlua::{Lua, Result as LuaResult, Table, Value};

use super::Program;
use super::bytecode::{Name, Names, Used};
use crate::api;
use crate::error::Error;
use crate::failure::located;
use crate::imports::Imports;

/// Checks that all globals, members of libraries and methods that the script names
/// are there. `lua` is a state in which the script's main chunk has run.
///
/// # Errors
/// Names the first that is not, with its line.
pub(crate) fn check<I: Imports>(program: &Program, lua: &Lua) -> Result<(), Error> {
    let Some(names) = Names::read(&program.bytecode) else {
        return Ok(());
    };
    let globals = lua.globals();
    let methods = api::methods::<I>().map_err(|error| located(&error, &program.name))?;
    for used in &names.used {
        if let Err(error) = is_known(&names, used, &globals, &methods) {
            let mut error = located(&error, &program.name);
            error.line = Some(used.line);
            return Err(error);
        }
    }
    Ok(())
}

fn is_known(
    names: &Names,
    used: &Used,
    globals: &Table,
    methods: &BTreeSet<String>,
) -> LuaResult<()> {
    match &used.name {
        Name::Global(name) | Name::Member(name, _) if names.globals.contains(name) => Ok(()),
        Name::Global(name) => globals.get::<Value>(&**name).map(drop),
        Name::Member(name, member) => match globals.get::<Value>(&**name)? {
            Value::Table(library) if library.raw_get::<Value>(&**member)?.is_nil() => {
                Err(unknown(&format!("`{name}` has no `{member}`")))
            }
            _ => Ok(()),
        },
        Name::Method(name) => {
            let text: Table = globals.get("string")?;
            let is_there = methods.contains(name)
                || names.fields.contains(name)
                || text.contains_key(&**name)?;
            match is_there {
                true => Ok(()),
                false => Err(unknown(&format!("nothing here has a method `{name}`"))),
            }
        }
    }
}

fn unknown(what: &str) -> mlua::Error {
    let hint = "docs/hook.md lists all functions";
    mlua::Error::RuntimeError(format!("{what} ({hint})"))
}
