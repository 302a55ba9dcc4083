//! Why a run failed.

use mlua::Error as LuaError;
use sekisho_certs::printable;

use crate::error::Error;

/// Reason why a run failed. All lead to `on_error`.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// The script failed, or what it gave can't be served.
    #[error("{0}")]
    Script(Error),
    /// The script took too much CPU time.
    #[error("{0}")]
    Cpu(Error),
    /// The state's memory did not suffice.
    #[error("the script took too much memory ([hook] memory)")]
    Memory {
        /// True if the run itself took most of it.
        own: bool,
    },
    /// The run took too long.
    #[error("the run took too long ([hook] timeout)")]
    Timeout,
    /// Too many runs wait, or the client's prefix is over its budget.
    #[error("too many runs wait, in all or for the client's network")]
    Overloaded,
    /// Memory did not suffice for another run.
    #[error("the run was broken off: its network held most of the script's memory ([hook] memory)")]
    BrokenOff,
    /// The function of `tls:cached` that the run waited for was broken off, or its worker
    /// shut down.
    #[error("the function of tls:cached was broken off")]
    LoadBrokenOff,
}

/// Charge for a run that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charged {
    /// A token, whatever the run did: it took what others need.
    Always,
    /// A token if the run made calls, and all were answered.
    Calls,
    Nothing,
}

impl Failure {
    /// Reads an error of Luau.
    pub(crate) fn of(error: &LuaError, script: &str) -> Self {
        if let Some(failure) = error.downcast_ref::<Self>() {
            return failure.clone();
        }
        match is_memory(error) {
            true => Self::Memory { own: false },
            false => Self::Script(located(error, script)),
        }
    }

    /// Returns whether the client is charged. Bounds that other clients have met charge
    /// nobody.
    pub(crate) fn charge(&self) -> Charged {
        match self {
            Self::Cpu(_) | Self::Memory { .. } | Self::BrokenOff => Charged::Always,
            Self::Script(_) | Self::Timeout => Charged::Calls,
            Self::Overloaded | Self::LoadBrokenOff => Charged::Nothing,
        }
    }
}

/// Lets a function of the API end the run, or be caught by the script.
impl From<Failure> for LuaError {
    fn from(failure: Failure) -> Self {
        Self::external(failure)
    }
}

/// Finds line and text of an error of Luau. `script` is the chunk's name.
pub(crate) fn located(error: &LuaError, script: &str) -> Error {
    let whole = error.to_string();
    let mut line = None;
    for (at, _) in whole.match_indices(script) {
        let digits = whole[at + script.len()..].strip_prefix(':');
        let digits = digits.and_then(|rest| rest.split(|c: char| !c.is_ascii_digit()).next());
        line = digits.and_then(|digits| digits.parse().ok());
        if line.is_some() {
            break;
        }
    }
    let message = innermost(error).to_string();
    let message = message.split("\nstack traceback:").next().unwrap_or("");
    let message = message.strip_prefix("runtime error: ").unwrap_or(message);
    let position = line.map(|line: u32| format!("{script}:{line}: "));
    let message = position
        .and_then(|position| message.strip_prefix(&position))
        .unwrap_or(message);
    let (what, hint) = match message.rsplit_once(" (") {
        Some((what, hint)) if hint.ends_with(')') => (what, &hint[..hint.len() - 1]),
        _ => (message, ""),
    };
    Error {
        script: script.into(),
        line,
        what: short(what),
        hint: short(hint),
    }
}

/// Tells whether memory did not suffice.
pub(crate) fn is_memory(error: &LuaError) -> bool {
    matches!(innermost(error), LuaError::MemoryError(_))
}

/// Returns the innermost cause of an error.
fn innermost(error: &LuaError) -> &LuaError {
    match error {
        LuaError::CallbackError { cause, .. }
        | LuaError::WithContext { cause, .. }
        | LuaError::BadArgument { cause, .. } => innermost(cause),
        other => other,
    }
}

fn short(text: &str) -> String {
    let end = text.floor_char_boundary(MAX_TEXT);
    printable(&text[..end])
}

/// Bytes of an error's text: a script may raise any.
const MAX_TEXT: usize = 500;
