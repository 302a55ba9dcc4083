//! Calls of clients, which wait without blocking.

use std::fmt::Display;
use std::future::Future;

use mlua::{Error, Lua, MultiValue, Result, Table};
use sekisho_certs::printable;
use tokio::time::Instant;

use super::arguments::Arguments;
use super::metatable;
use crate::imports::{CallError, Imports};
use crate::report::Called;
use crate::run::Run;

/// Waits for a client's answer. An error of the client is raised: it is never an
/// absence. A run that is reported says what it asked.
pub(super) async fn wait<I: Imports, T>(
    run: &Run<I>,
    what: Option<String>,
    call: impl Future<Output = std::result::Result<T, CallError>>,
    answer: impl FnOnce(&T) -> String,
) -> Result<T> {
    run.admitted(run.deadline).await?;
    let begun = Instant::now();
    let is_outage = |result: &_| matches!(result, Err(CallError::Outage(_)));
    let result = run.token().ask(call, is_outage).await;
    if let Some(what) = what {
        let answer = match &result {
            Ok(value) => answer(value),
            Err(error) => format!("failed: {}", printable(&error.to_string())),
        };
        let called = Called {
            what: printable(&what),
            took: begun.elapsed(),
            answer,
        };
        run.report(|report| report.calls.push(called));
    }
    result.map_err(|error| Error::RuntimeError(error.to_string()))
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

/// Installs the function that makes clients of a kind: tables with their `name`, which is
/// described so and has at most so many bytes. All clients of a state share the methods.
pub(super) fn install(
    lua: &Lua,
    globals: &Table,
    kind: &'static str,
    (what, longest): (&'static str, usize),
    methods: Table,
) -> Result<()> {
    methods.set_readonly(true);
    let methods = metatable(lua, methods)?;
    let function = lua.create_function(move |lua, given: MultiValue| {
        let mut arguments = Arguments::of(kind, given);
        let name = arguments.utf8(what, longest)?;
        arguments.end()?;
        let client = lua.create_table_with_capacity(0, 1)?;
        client.raw_set("name", name)?;
        client.set_metatable(Some(methods.clone()))?;
        client.set_readonly(true);
        Ok(client)
    })?;
    globals.raw_set(kind, function)
}

pub(super) const MAX_URL: usize = 8 * 1024;
/// Bytes of one answer.
const MAX_ANSWER: usize = 1024 * 1024;
