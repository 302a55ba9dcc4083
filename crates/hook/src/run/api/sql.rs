//! `sql(name):query(text, …)`.

use std::sync::Arc;

use mlua::{Error, Lua, MultiValue, Result, Table, Value};

use super::arguments::Arguments;
use super::clients::{self, bounded, wait};
use super::waiting::{Begun, Reply, Waiting};
use crate::imports::{Imports, SqlRow, SqlValue};
use crate::run::Run;

/// Installs `sql`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    waiting: &Waiting<'_, I>,
    globals: &Table,
) -> Result<()> {
    let methods = lua.create_table()?;
    methods.raw_set("query", waiting.function(query)?)?;
    clients::install(
        lua,
        globals,
        "sql",
        ("name of a database", MAX_NAME),
        methods,
    )
}

fn query<I: Imports>(run: &Arc<Run<I>>, given: MultiValue) -> Result<Begun> {
    let (mut arguments, database) = Arguments::of_client("sql:query", given)?;
    let text = arguments.utf8("text of the query", MAX_QUERY)?;
    let count = arguments.left();
    if count > MAX_PARAMETERS {
        return Err(arguments.error("takes at most 32 parameters", "ask for less"));
    }
    let parameters = (0..count).map(|_| parameter(&mut arguments));
    let parameters = parameters.collect::<Result<Vec<_>>>()?;
    run.calls().map_err(Error::RuntimeError)?;
    let run = Arc::clone(run);
    Ok(Begun::waits(async move {
        let what = run.report.as_ref();
        let what = what.map(|_| format!("sql({database:?}):query({text:?})"));
        let call = run.shared.imports.sql(&database, text, parameters);
        let show = |rows: &Vec<SqlRow>| format!("{} rows", rows.len());
        let rows = wait(&run, what, call, show).await?;
        bounded(rows.iter().map(size).sum(), &"sql")?;
        Ok(Reply::Rows(rows))
    }))
}

/// Makes a table of each row.
pub(super) fn tables(lua: &Lua, rows: Vec<SqlRow>) -> Result<Vec<Table>> {
    rows.into_iter().map(|columns| row(lua, columns)).collect()
}

fn parameter(arguments: &mut Arguments) -> Result<SqlValue> {
    Ok(match arguments.next() {
        Value::Nil => SqlValue::Null,
        Value::Boolean(value) => SqlValue::Bool(value),
        Value::Integer(value) => SqlValue::Integer(value),
        Value::Number(value) => SqlValue::Float(value),
        Value::String(text) if text.as_bytes().len() <= MAX_PARAMETER => match text.to_str() {
            Ok(text) => SqlValue::Text(text.to_owned()),
            Err(_) => SqlValue::Bytes(text.as_bytes().to_vec()),
        },
        _ => {
            let wanted = "nil, a boolean, a number, or a string of at most 64 KiB";
            return Err(arguments.wrong("parameter", wanted));
        }
    })
}

fn row(lua: &Lua, columns: SqlRow) -> Result<Table> {
    let table = lua.create_table_with_capacity(0, columns.len())?;
    for (name, value) in columns {
        let value = match value {
            SqlValue::Null => continue,
            SqlValue::Bool(value) => Value::Boolean(value),
            SqlValue::Integer(value) => Value::Integer(value),
            SqlValue::Float(value) => Value::Number(value),
            SqlValue::Text(value) => Value::String(lua.create_string(value)?),
            SqlValue::Bytes(value) => Value::String(lua.create_string(value)?),
        };
        table.raw_set(&*name, value)?;
    }
    Ok(table)
}

fn size(columns: &SqlRow) -> usize {
    let size = |(name, value): &(Arc<str>, SqlValue)| match value {
        SqlValue::Text(value) => name.len() + value.len(),
        SqlValue::Bytes(value) => name.len() + value.len(),
        _ => name.len() + 8,
    };
    columns.iter().map(size).sum()
}

const MAX_NAME: usize = 64;
const MAX_QUERY: usize = 16 * 1024;
const MAX_PARAMETERS: usize = 32;
const MAX_PARAMETER: usize = 64 * 1024;
