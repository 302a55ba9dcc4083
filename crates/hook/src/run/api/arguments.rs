//! Arguments of a script's calls, checked with words for its author.

use std::time::Duration;

use mlua::{Error, Function, MultiValue, Result, Value};

/// Arguments of one call. Reading one takes it.
pub(super) struct Arguments {
    function: &'static str,
    rest: MultiValue,
    position: usize,
}

impl Arguments {
    /// Takes the arguments of a method. Its first one is what stands before the colon.
    pub(super) fn of_method(function: &'static str, mut given: MultiValue) -> Result<Self> {
        match given.pop_front() {
            Some(Value::Table(_)) => Ok(Self::of(function, given)),
            _ => Err(error(
                function,
                "needs what it is called on",
                "write a colon, not a dot",
            )),
        }
    }

    /// Takes the arguments of a client's method, and the client's name.
    pub(super) fn of_client(
        function: &'static str,
        mut given: MultiValue,
    ) -> Result<(Self, String)> {
        let name = match given.pop_front() {
            Some(Value::Table(client)) => client.raw_get::<Option<String>>("name")?,
            _ => None,
        };
        let name =
            name.ok_or_else(|| error(function, "needs its client", "write a colon, not a dot"))?;
        Ok((Self::of(function, given), name))
    }

    /// Takes the arguments of a plain function.
    pub(super) fn of(function: &'static str, given: MultiValue) -> Self {
        Self {
            function,
            rest: given,
            position: 0,
        }
    }

    /// Reads a string of at most `longest` bytes.
    pub(super) fn text(&mut self, what: &str, longest: usize) -> Result<Vec<u8>> {
        match self.next() {
            Value::String(text) => {
                let text = text.as_bytes().to_vec();
                match text.len() > longest {
                    true => Err(self.wrong(what, &format!("at most {longest} bytes"))),
                    false => Ok(text),
                }
            }
            other => Err(self.wrong(what, &format!("a string, not {}", other.type_name()))),
        }
    }

    /// Reads a string in UTF-8.
    pub(super) fn utf8(&mut self, what: &str, longest: usize) -> Result<String> {
        let text = self.text(what, longest)?;
        String::from_utf8(text).map_err(|_| self.wrong(what, "UTF-8"))
    }

    /// Reads a key: UTF-8 of 1 to 256 bytes.
    pub(super) fn key(&mut self) -> Result<String> {
        let key = self.utf8("key", MAX_KEY)?;
        match key.is_empty() {
            true => Err(self.wrong("key", "at least one byte")),
            false => Ok(key),
        }
    }

    /// Reads seconds as a time limit: from a millisecond to a year.
    pub(super) fn ttl(&mut self) -> Result<Duration> {
        let seconds = match self.next() {
            #[expect(clippy::cast_precision_loss, reason = "far fewer than 2^52 seconds")]
            Value::Integer(seconds) => seconds as f64,
            Value::Number(seconds) => seconds,
            other => {
                let wanted = format!("a number of seconds, not {}", other.type_name());
                return Err(self.wrong("ttl", &wanted));
            }
        };
        match (0.001..=YEAR).contains(&seconds) {
            true => Ok(Duration::from_secs_f64(seconds)),
            false => Err(self.wrong("ttl", "0.001 to 31,536,000 seconds")),
        }
    }

    /// Reads a function.
    pub(super) fn function(&mut self) -> Result<Function> {
        match self.next() {
            Value::Function(function) => Ok(function),
            other => {
                let wanted = format!("a function, not {}", other.type_name());
                Err(self.wrong("third argument", &wanted))
            }
        }
    }

    /// Reads whatever comes next; nil at the end.
    pub(super) fn next(&mut self) -> Value {
        self.position += 1;
        self.rest.pop_front().unwrap_or(Value::Nil)
    }

    /// Returns how many arguments are left.
    pub(super) fn left(&self) -> usize {
        self.rest.len()
    }

    /// Checks that no argument is left but nil.
    pub(super) fn end(&self) -> Result<()> {
        match self.rest.iter().all(Value::is_nil) {
            true => Ok(()),
            false => {
                let takes = format!("takes {} arguments", self.position);
                Err(error(self.function, &takes, "leave out the others"))
            }
        }
    }

    /// Makes an error about the argument that was read last.
    pub(super) fn wrong(&self, what: &str, wanted: &str) -> Error {
        let text = format!("{}: {what} must be {wanted}", self.function);
        Error::RuntimeError(text)
    }

    /// Makes an error about the call.
    pub(super) fn error(&self, what: &str, hint: &str) -> Error {
        error(self.function, what, hint)
    }
}

fn error(function: &str, what: &str, hint: &str) -> Error {
    Error::RuntimeError(format!("{function} {what} ({hint})"))
}

/// Bytes of a key.
pub(super) const MAX_KEY: usize = 256;
const YEAR: f64 = 31_536_000.0;
