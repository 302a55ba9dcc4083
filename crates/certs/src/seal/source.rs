//! Sources of the master key.

use std::env;
use std::fmt;
use std::io::{self, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{KeyError, KeyRing, file, text};

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
    /// Reads the keys. It blocks: up to 10 seconds for a command.
    ///
    /// # Errors
    /// Names the source and what to do; a key file that others may read is
    /// refused.
    pub fn load(&self) -> Result<KeyRing, KeyError> {
        match self {
            Self::File(path) => text::parse(&file::read(path)?, &path.display().to_string()),
            Self::Env(name) => {
                text::parse(&variable(name)?, &format!("environment variable {name}"))
            }
            Self::Command { line, hidden } => load_command(line, hidden, COMMAND_TIMEOUT),
        }
    }

    /// Returns the text of the source with one more key at its end, and the id
    /// of that key. Meant for sources that can't be written. Blocks as
    /// [`KeySource::load`] does.
    ///
    /// # Errors
    /// As [`KeySource::load`].
    pub fn extended(&self) -> Result<(Zeroizing<String>, u32), KeyError> {
        let text = match self {
            Self::File(path) => file::read(path)?,
            Self::Env(name) => variable(name)?,
            Self::Command { line, hidden } => command_text(line, hidden, COMMAND_TIMEOUT)?,
        };
        // A text that is no ring now is none with one more key either.
        text::parse(&text, &self.to_string())?;
        Ok(text::extend(&text))
    }

    /// Keeps variables with other secrets from what a command inherits.
    pub fn hide(&mut self, variables: impl IntoIterator<Item = String>) {
        if let Self::Command { hidden, .. } = self {
            hidden.extend(variables);
        }
    }

    /// Takes a relative path from `folder`.
    #[must_use]
    pub fn relative_to(self, folder: &Path) -> Self {
        match self {
            Self::File(path) => Self::File(folder.join(path)),
            other => other,
        }
    }
}

impl FromStr for KeySource {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        match text.split_once(':') {
            Some(("file", path)) if !path.is_empty() && !path.contains('\0') => {
                Ok(Self::File(path.into()))
            }
            Some(("env", name)) if !name.is_empty() && !name.contains(['=', '\0', ' ']) => {
                Ok(Self::Env(name.to_owned()))
            }
            Some(("command", line)) if !line.trim().is_empty() => Ok(Self::Command {
                line: line.to_owned(),
                hidden: Vec::new(),
            }),
            // The text may be the key itself: it is not repeated.
            _ => Err(KeyError::Source),
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

fn variable(name: &str) -> Result<Zeroizing<String>, KeyError> {
    let text = env::var(name).map_err(|_| KeyError::Variable(name.to_owned()))?;
    Ok(Zeroizing::new(text))
}

fn load_command(command: &str, hidden: &[String], deadline: Duration) -> Result<KeyRing, KeyError> {
    let text = command_text(command, hidden, deadline)?;
    text::parse(&text, &format!("command {command:?}"))
}

fn command_text(
    command: &str,
    hidden: &[String],
    deadline: Duration,
) -> Result<Zeroizing<String>, KeyError> {
    let fault = |what: String| KeyError::Command {
        command: command.to_owned(),
        what,
    };
    let started = Instant::now();
    let mut shell = Command::new("sh");
    for name in hidden {
        shell.env_remove(name);
    }
    let mut child = shell
        .args(["-c", command])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| fault(format!("could not be started: {error}")))?;
    let stdout = child.stdout.take().expect("it was piped");
    let (send, received) = mpsc::sync_channel(1);
    // A thread, since the pipe may outlive the child in a grandchild's hands.
    thread::spawn(move || send.send(read(stdout)));
    let output = received.recv_timeout(deadline);
    let ended = wait(&mut child, deadline.saturating_sub(started.elapsed()));
    let (Ok(output), Some(status)) = (output, ended) else {
        // The command may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        let command = command.to_owned();
        return Err(KeyError::TimedOut { command, deadline });
    };
    let output = output.map_err(|error| fault(format!("gave no key: {error}")))?;
    if !status.success() {
        return Err(fault(format!("failed ({status})")));
    }
    to_text(&output, &format!("command {command:?}"))
}

fn wait(child: &mut Child, within: Duration) -> Option<std::process::ExitStatus> {
    let until = Instant::now() + within;
    loop {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        if Instant::now() >= until {
            return None;
        }
        thread::sleep(POLL_INTERVAL);
    }
}

/// Reads into memory that is wiped, and that never grows: growing would leave
/// copies behind.
pub(super) fn read(mut from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; MAX_KEY_TEXT]);
    let mut filled = 0;
    loop {
        match from.read(&mut bytes[filled..]) {
            Ok(0) if filled == MAX_KEY_TEXT => {
                return Err(io::Error::other("it is over 64 KiB, no master key"));
            }
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// Copies bytes into a text that is wiped too.
pub(super) fn to_text(bytes: &[u8], source_name: &str) -> Result<Zeroizing<String>, KeyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| KeyError::Text {
        source_name: source_name.to_owned(),
        what: "is no text, so no master key".to_owned(),
    })?;
    Ok(Zeroizing::new(text.to_owned()))
}

/// Start-up waits for the command no longer than an operator would.
const COMMAND_TIMEOUT: Duration = Duration::from_secs(10);
/// How often it is looked whether the command has ended.
const POLL_INTERVAL: Duration = Duration::from_millis(5);
/// Hundreds of keys with comments.
pub(super) const MAX_KEY_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sources_are_parsed() {
        for text in ["file:/a/b", "env:KEY", "command:pass show sekisho:key"] {
            let source: KeySource = text.parse().unwrap();
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
            assert!(text.parse::<KeySource>().is_err(), "{text}");
        }
        let error = "sekisho-master-key-1:0123"
            .parse::<KeySource>()
            .unwrap_err();
        assert!(!error.to_string().contains("0123"), "{error}");
        let source: KeySource = "file:master.key".parse().unwrap();
        assert_eq!(
            source.relative_to(Path::new("/etc/sekisho")).to_string(),
            "file:/etc/sekisho/master.key"
        );
    }

    #[test]
    fn a_command_prints_the_key() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let made = KeyRing::create_file(&path).unwrap();
        let load = |line: &str, deadline| load_command(line, &[], deadline);
        let second = Duration::from_secs(5);
        let loaded = load(&format!("cat '{}'", path.display()), second).unwrap();
        assert_eq!(loaded.first(), made.first());
        for (line, wanted) in [
            ("exit 3", "exit status: 3"),
            ("echo nonsense", "is no key"),
            ("yes", "over 64 KiB"),
            ("true", "holds no key"),
        ] {
            let error = load(line, second).unwrap_err().to_string();
            assert!(error.contains(wanted), "{line}: {error}");
        }
    }

    #[test]
    fn a_command_that_hangs_is_ended() {
        let deadline = Duration::from_millis(50);
        // The first closes its output and lives on.
        for line in ["exec >&-; exec sleep 600", "exec sleep 600"] {
            let begun = Instant::now();
            let error = load_command(line, &[], deadline).unwrap_err();
            assert!(matches!(error, KeyError::TimedOut { .. }), "{error}");
            assert!(begun.elapsed() < Duration::from_secs(5));
        }
    }

    #[test]
    fn a_variable_holds_the_key() {
        // PATH is set everywhere and holds no key; the other nowhere.
        let error = KeySource::Env("PATH".into()).load().unwrap_err();
        assert!(matches!(error, KeyError::Text { .. }), "{error}");
        let error = KeySource::Env("SEKISHO_NO_SUCH_VARIABLE".into()).load();
        assert!(matches!(error, Err(KeyError::Variable(_))));
    }
}
