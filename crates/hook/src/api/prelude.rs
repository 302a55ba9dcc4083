//! Functions of Luau's libraries with bounds.

use std::sync::Arc;

use mlua::chunk::Compiler;
use mlua::{Lua, Result};

use crate::meter::Meter;

/// Replaces functions that run long without an interrupt.
pub(crate) fn install(lua: &Lua, meter: &Arc<Meter>) -> Result<()> {
    let meter = Arc::clone(meter);
    let hurry = lua.create_function(move |_, ()| {
        meter.hurry();
        Ok(())
    })?;
    // Without positions of its own, an error has the text alone.
    let compiler = Compiler::new().set_debug_level(0);
    let prelude = lua.load(PRELUDE).set_name("=prelude");
    prelude.set_compiler(compiler).call(hurry)
}

const PRELUDE: &str = include_str!("prelude.luau");
