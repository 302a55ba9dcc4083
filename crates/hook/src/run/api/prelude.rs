//! Functions of Luau's libraries with bounds.

use std::sync::Arc;

use mlua::chunk::Compiler;
use mlua::{Error, Lua, Result, Value};

use crate::failure::{Failure, is_memory, located};
use crate::meter::Meter;

/// Replaces functions that run long without an interrupt, and those that catch errors.
pub(crate) fn install(lua: &Lua, meter: &Arc<Meter>, script: &Arc<str>) -> Result<()> {
    let meter = Arc::clone(meter);
    let hurry = lua.create_function(move |_, ()| {
        meter.hurry();
        Ok(())
    })?;
    let script = Arc::clone(script);
    let shown = lua.create_function(move |lua, what: Value| match what {
        Value::Error(error) => shown(lua, &error, &script),
        other => Ok(other),
    })?;
    // Without positions of its own, an error has the text alone.
    let compiler = Compiler::new().set_debug_level(0);
    let prelude = lua.load(PRELUDE).set_name("=prelude");
    prelude.set_compiler(compiler).call((hurry, shown))
}

/// Returns what a script catches: a text of the state, which its memory bound counts.
/// Failures that end a run by a bound stay what they are, without a traceback.
fn shown(lua: &Lua, error: &Error, script: &str) -> Result<Value> {
    let kept = match error.downcast_ref::<Failure>() {
        Some(Failure::Script(_)) => None,
        Some(failure) => Some(failure.clone().into()),
        None if is_memory(error) => Some(Error::MemoryError("not enough memory".into())),
        None => None,
    };
    if let Some(kept) = kept {
        return Ok(Value::Error(Box::new(kept)));
    }
    let text = located(error, script).to_string();
    Ok(Value::String(lua.create_string(text)?))
}

const PRELUDE: &str = include_str!("prelude.luau");
