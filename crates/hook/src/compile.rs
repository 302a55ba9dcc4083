//! From a script's text to bytecode, once.

use std::sync::Arc;

use mlua::Error as LuaError;
use mlua::chunk::Compiler;

use crate::error::Error;

/// Compiled script, loaded by each state.
#[derive(Debug)]
pub(crate) struct Program {
    pub(crate) name: Arc<str>,
    pub(crate) bytecode: Vec<u8>,
}

impl Program {
    /// Compiles a script.
    ///
    /// # Errors
    /// Says where the text is no Luau.
    pub(crate) fn compile(name: &str, source: &str) -> Result<Self, Error> {
        let error = |line, what: &str, hint: &str| Error {
            line,
            hint: hint.into(),
            ..error(name, what)
        };
        if source.len() > MAX_SOURCE {
            let hint = "keep data in a store";
            return Err(error(None, "the script has more than 1 MiB", hint));
        }
        let compiler = Compiler::new().set_optimization_level(1).set_debug_level(1);
        let bytecode = compiler.compile(source).map_err(|failed| {
            let message = match failed {
                LuaError::SyntaxError { message, .. } => message,
                other => other.to_string(),
            };
            let (line, what) = split(&message);
            error(line, what, "the script does not compile")
        })?;
        Ok(Self {
            name: name.into(),
            bytecode,
        })
    }

    /// Makes an error of the script that belongs to no line.
    pub(crate) fn error(&self, what: &str) -> Error {
        error(&self.name, what)
    }
}

/// Makes an error of the script that belongs to no line.
fn error(script: &str, what: &str) -> Error {
    Error {
        script: script.into(),
        line: None,
        what: what.into(),
        hint: String::new(),
    }
}

/// Splits the compiler's `12: what` into its parts.
fn split(message: &str) -> (Option<u32>, &str) {
    let (line, what) = message.split_once(':').unwrap_or(("", message));
    match line.parse() {
        Ok(line) => (Some(line), what.trim()),
        Err(_) => (None, message),
    }
}

const MAX_SOURCE: usize = 1024 * 1024;
