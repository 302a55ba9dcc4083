//! `cache:get` and `cache:set`.

use std::sync::Arc;

use mlua::{Lua, MultiValue, Result, Table, Value};
use tokio::time::Instant;

use super::arguments::Arguments;
use super::without_others;
use crate::cache::Value as Kept;
use crate::imports::Imports;
use crate::run::state::Current;

/// Installs `cache`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    current: &Arc<Current<I>>,
    globals: &Table,
) -> Result<()> {
    let cache = lua.create_table()?;
    let of = Arc::clone(current);
    let function = lua.create_function(move |lua, given: MultiValue| {
        let mut arguments = Arguments::of_method("cache:get", given)?;
        let key = arguments.key()?;
        arguments.end()?;
        let run = of.run()?;
        Ok(match run.shared.cache.value(&key, Instant::now()) {
            None => Value::Nil,
            Some(Kept::Bool(value)) => Value::Boolean(value),
            Some(Kept::Number(value)) => Value::Number(value),
            Some(Kept::Text(value)) => Value::String(lua.create_string(value)?),
        })
    })?;
    cache.raw_set("get", function)?;
    let of = Arc::clone(current);
    let function = lua.create_function(move |_, given: MultiValue| {
        let mut arguments = Arguments::of_method("cache:set", given)?;
        let key = arguments.key()?;
        let value = value(&mut arguments)?;
        let run = of.run()?;
        let cache = &run.shared.cache;
        match value {
            None => cache.remove(&key),
            Some(value) => cache.set(&key, value, Instant::now() + arguments.ttl()?),
        }
        Ok(())
    })?;
    cache.raw_set("set", function)?;
    cache.set_metatable(Some(without_others(lua, "cache")?))?;
    cache.set_readonly(true);
    globals.raw_set("cache", cache)
}

fn value(arguments: &mut Arguments) -> Result<Option<Kept>> {
    Ok(Some(match arguments.next() {
        Value::Nil => return Ok(None),
        Value::Boolean(value) => Kept::Bool(value),
        #[expect(clippy::cast_precision_loss, reason = "numbers of Luau are doubles")]
        Value::Integer(value) => Kept::Number(value as f64),
        Value::Number(value) => Kept::Number(value),
        Value::String(text) if text.as_bytes().len() <= MAX_VALUE => {
            Kept::Text(Arc::from(&*text.as_bytes()))
        }
        Value::String(_) => return Err(arguments.wrong("value", "at most 65,536 bytes")),
        other => {
            let kind = other.type_name();
            let wanted = format!("nil, a boolean, a number or a string, not {kind}");
            return Err(arguments.wrong("value", &wanted));
        }
    }))
}

const MAX_VALUE: usize = 65_536;
