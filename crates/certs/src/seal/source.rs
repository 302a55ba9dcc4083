//! Sources of the master key.

use std::env;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{KeyError, KeyRing, file, text};
use crate::child::with_all_signals;

/// `[keys] master` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `file:PATH`
    File(PathBuf),
    /// `env:NAME`
    Env(String),
    /// `command:…`, a line for `sh -c` that prints the key's text.
    Command {
        /// The line.
        line: String,
        /// Variables that the command does not inherit.
        hidden: Vec<String>,
    },
}

impl KeySource {
    /// Parses the configured text; a relative path begins at `folder`.
    ///
    /// # Errors
    /// [`KeyError::Source`]: the text is not repeated, since it may be the key.
    pub fn parse(text: &str, folder: &Path) -> Result<Self, KeyError> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::File(folder.join(path)))
            }
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0', ' ']) => {
                Ok(Self::Env(name.to_owned()))
            }
            Some(("command", line)) if !line.trim().is_empty() => Ok(Self::Command {
                line: line.to_owned(),
                hidden: Vec::new(),
            }),
            _ => Err(KeyError::Source),
        }
    }

    /// Reads the keys. It blocks: up to 10 seconds for a command.
    ///
    /// # Errors
    /// Names the source and what to do; a key file that others may read is
    /// refused.
    pub fn load(&self) -> Result<KeyRing, KeyError> {
        text::parse(&self.text()?, self)
    }

    /// Returns the text of the source with one more key at its end, and the id
    /// of that key. Meant for sources that can't be written. Blocks as
    /// [`KeySource::load`] does.
    ///
    /// # Errors
    /// As [`KeySource::load`].
    pub fn extended(&self) -> Result<(Zeroizing<String>, u32), KeyError> {
        let text = self.text()?;
        // A text that is no ring now is none with one more key either.
        text::parse(&text, self)?;
        Ok(text::extend(&text))
    }

    fn text(&self) -> Result<Zeroizing<String>, KeyError> {
        match self {
            Self::File(path) => file::read(path),
            // The error itself would show what the variable holds.
            Self::Env(name) => env::var(name)
                .map(Zeroizing::new)
                .map_err(|_| KeyError::unusable(self, "the variable is not set, or no text")),
            Self::Command { line, hidden } => {
                run(line, hidden, COMMAND_TIMEOUT).map_err(|what| KeyError::unusable(self, what))
            }
        }
    }
}

impl fmt::Display for KeySource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "file:{}", path.display()),
            Self::Env(name) => write!(f, "env:{name}"),
            Self::Command { line, .. } => write!(f, "command:{line}"),
        }
    }
}

/// Runs a command and returns what it prints, or what went wrong.
fn run(line: &str, hidden: &[String], deadline: Duration) -> Result<Zeroizing<String>, String> {
    let started = Instant::now();
    let mut shell = Command::new("sh");
    for name in hidden {
        shell.env_remove(name);
    }
    shell
        .args(["-c", line])
        .stdin(Stdio::null())
        .stdout(Stdio::piped());
    let mut child = with_all_signals(|| shell.spawn())
        .map_err(|error| format!("the command could not be started: {error}"))?;
    let stdout = child.stdout.take().expect("it was piped");
    // A thread, since the pipe may outlive the child in a grandchild's hands.
    let reader = thread::spawn(move || read(stdout));
    let status = loop {
        match child.try_wait() {
            Ok(Some(status)) if reader.is_finished() => break status,
            _ if started.elapsed() < deadline => thread::sleep(POLL_INTERVAL),
            _ => {
                // The command may have ended by itself meanwhile.
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("the command did not end within {deadline:?}"));
            }
        }
    };
    let output = reader.join().expect("reading does not panic");
    let output = output.map_err(|error| format!("the command gave no key: {error}"))?;
    match status.success() {
        true => Ok(output),
        false => Err(format!("the command failed ({status})")),
    }
}

/// Reads a text into memory that is wiped.
pub(super) fn read(from: impl Read) -> io::Result<Zeroizing<String>> {
    // Room for all of it and more: growing would leave copies behind.
    let mut text = Zeroizing::new(String::with_capacity(2 * MAX_KEY_TEXT));
    let mut from = from.take(MAX_KEY_TEXT as u64 + 1);
    from.read_to_string(&mut text)
        .map_err(|error| match error.kind() {
            io::ErrorKind::InvalidData => io::Error::other("it is no text, so no master key"),
            _ => error,
        })?;
    match text.len() > MAX_KEY_TEXT {
        true => Err(io::Error::other("it is over 64 KiB, no master key")),
        false => Ok(text),
    }
}

/// Start-up waits for the command no longer than an operator would.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// Time between two looks at whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Hundreds of keys with comments.
pub(super) const MAX_KEY_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_parsed() {
        let parse = |text| KeySource::parse(text, Path::new("/etc/sekisho"));
        for text in ["file:/a/b", "env:KEY", "command:pass show sekisho:key"] {
            let source = parse(text).unwrap();
            assert_eq!(source.to_string(), text);
        }
        for text in [
            "",
            "file:",
            "file:a\0b",
            "env:",
            "env:a=b",
            "env:a b",
            "command: ",
            "master.key",
        ] {
            assert!(parse(text).is_err(), "{text}");
        }
        let error = parse("sekisho-master-key-1:0123").unwrap_err();
        assert!(!error.to_string().contains("0123"), "{error}");
        let source = parse("file:master.key").unwrap();
        assert_eq!(source.to_string(), "file:/etc/sekisho/master.key");
    }

    #[test]
    fn a_command_prints_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let made = KeyRing::create_file(&path).unwrap();
        let load = |line: &str| {
            let line = line.to_owned();
            let hidden = Vec::new();
            KeySource::Command { line, hidden }.load()
        };
        let loaded = load(&format!("cat '{}'", path.display())).unwrap();
        assert_eq!(loaded.first(), made.first());
        for (line, wanted) in [
            ("exit 3", "exit status: 3"),
            ("echo nonsense", "is no key"),
            ("yes", "over 64 KiB"),
            ("true", "holds no key"),
        ] {
            let error = load(line).unwrap_err().to_string();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let deadline = Duration::from_millis(50);
        // The first closes its output and lives on.
        for line in ["exec >&-; exec sleep 600", "exec sleep 600"] {
            let begun = Instant::now();
            let error = run(line, &[], deadline).unwrap_err();
            assert!(error.contains("did not end within 50ms"), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
    }

    #[test]
    fn a_variable_holds_the_key() {
        // PATH is set everywhere and holds no key; the other nowhere.
        for (name, wanted) in [
            ("PATH", "env:PATH: line 1: is no key"),
            ("SEKISHO_NO_SUCH_VARIABLE", "is not set"),
        ] {
            let error = KeySource::Env(name.into()).load().unwrap_err();
            assert!(error.to_string().contains(wanted), "{error}");
        }
    }
}
