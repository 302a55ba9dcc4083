//! `log`: a line in the server's log.

use std::sync::Arc;

use mlua::{Lua, MultiValue, Result, Table, Value};
use sekisho_certs::printable;

use crate::imports::Imports;
use crate::run::state::Current;

/// Installs `log`.
pub(super) fn install<I: Imports>(
    lua: &Lua,
    current: &Arc<Current<I>>,
    globals: &Table,
) -> Result<()> {
    let current = Arc::clone(current);
    let function = lua.create_function(move |lua, given: MultiValue| {
        let run = current.run()?;
        let others = run.shared.lines.allow();
        if others.is_none() && run.report.is_none() {
            return Ok(());
        }
        let text = line(&given);
        let hello = run.hello.as_ref();
        let name = hello.and_then(|hello| hello.server_name.as_ref());
        let name = name.map_or("", |name| name.as_str());
        #[expect(
            clippy::redundant_closure_for_method_calls,
            reason = "the path is no FnOnce"
        )]
        let at = lua.inspect_stack(1, |frame| frame.current_line()).flatten();
        if let Some(others) = others {
            let script = &*run.shared.program.name;
            tracing::info!(name, script, line = at, others, "hook: {text}");
        }
        run.report(|report| {
            if report.log.len() < MAX_LINES {
                report.log.push(text);
            }
        });
        Ok(())
    })?;
    globals.raw_set("log", function)
}

/// Joins values by spaces. Control and format characters are escaped: a server name
/// or a store's answer must not forge lines. Strings hold any bytes: those that are no
/// UTF-8 are replaced.
fn line(values: &MultiValue) -> String {
    let mut line = String::new();
    for value in values {
        if line.len() > MAX_LINE {
            break;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        match value {
            Value::String(text) => {
                let bytes = text.as_bytes();
                let first = &bytes[..bytes.len().min(MAX_LINE)];
                line.push_str(&String::from_utf8_lossy(first));
            }
            // A metamethod may fail.
            other => line.push_str(other.to_string().as_deref().unwrap_or(other.type_name())),
        }
    }
    printable(&line[..line.floor_char_boundary(MAX_LINE)])
}

const MAX_LINE: usize = 1024;
/// Lines of one report.
const MAX_LINES: usize = 1000;
