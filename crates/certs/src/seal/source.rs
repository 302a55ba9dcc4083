//! Where the master key comes from.

use std::env;
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{self, Child, Command, Stdio};
use std::str::FromStr;
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use zeroize::Zeroizing;

use super::{KeyError, KeyRing, text};

/// `[keys] master` of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeySource {
    /// `file:PATH`
    File(PathBuf),
    /// `env:NAME`
    Env(String),
    /// `command:…`, a line for `sh -c` that prints the key's text.
    Command(String),
}

impl KeySource {
    /// Reads the keys. It blocks: up to 10 seconds for a command.
    ///
    /// # Errors
    /// Names the source and what to do; a key file that others may read is
    /// refused.
    pub fn load(&self) -> Result<KeyRing, KeyError> {
        match self {
            Self::File(path) => load_file(path),
            Self::Env(name) => {
                let key = env::var(name).map_err(|_| KeyError::Variable(name.clone()))?;
                text::parse(
                    &Zeroizing::new(key),
                    &format!("environment variable {name}"),
                )
            }
            Self::Command(command) => load_command(command, DEADLINE),
        }
    }

    /// The same source with a relative path taken from `folder`.
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
            Some(("command", line)) if !line.trim().is_empty() => {
                Ok(Self::Command(line.to_owned()))
            }
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
            Self::Command(line) => write!(f, "command:{line}"),
        }
    }
}

impl KeyRing {
    /// Makes a key file with a new key, for its owner only; never overwrites.
    ///
    /// # Errors
    /// [`KeyError::Exists`], or what the file system says.
    pub fn create_file(path: &Path) -> Result<Self, KeyError> {
        let fault = |error: io::Error| match error.kind() {
            io::ErrorKind::AlreadyExists => KeyError::Exists(path.to_owned()),
            _ => KeyError::File(path.to_owned(), error),
        };
        let key = text::generate();
        // Written whole before it has its name: a run that is killed leaves no
        // half a key. A link, unlike a rename, never replaces.
        let mut fresh = path.as_os_str().to_owned();
        fresh.push(format!(".{}.new", process::id()));
        let fresh = PathBuf::from(fresh);
        let made = write_durably(&key, &fresh).and_then(|()| fs::hard_link(&fresh, path));
        let removed = fs::remove_file(&fresh);
        made.and(removed)
            .and_then(|()| sync_folder(path))
            .map_err(fault)?;
        text::parse(&key, &path.display().to_string())
    }
}

fn write_durably(text: &str, path: &Path) -> io::Result<()> {
    // What an earlier run left is nobody's key.
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut options = OpenOptions::new();
    let mut file = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A name is durable only with its folder.
fn sync_folder(path: &Path) -> io::Result<()> {
    let folder = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

fn load_file(path: &Path) -> Result<KeyRing, KeyError> {
    let fault = |error| KeyError::File(path.to_owned(), error);
    let file = File::open(path).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => KeyError::Missing(path.to_owned()),
        _ => fault(error),
    })?;
    let mode = file.metadata().map_err(fault)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        return Err(KeyError::Exposed(path.to_owned(), mode));
    }
    let bytes = read(file).map_err(fault)?;
    parse(&bytes, &path.display().to_string())
}

fn load_command(command: &str, deadline: Duration) -> Result<KeyRing, KeyError> {
    let fault = |what: String| KeyError::Command {
        command: command.to_owned(),
        what,
    };
    let started = Instant::now();
    let mut child = Command::new("sh")
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
        // It may have ended by itself meanwhile.
        let _ = child.kill();
        let _ = child.wait();
        let command = command.to_owned();
        return Err(KeyError::TimedOut { command, deadline });
    };
    let output = output.map_err(|error| fault(format!("gave no key: {error}")))?;
    if !status.success() {
        return Err(fault(format!("failed ({status})")));
    }
    parse(&output, &format!("command {command:?}"))
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
        thread::sleep(LOOK);
    }
}

/// Reads into memory that is wiped, and that never grows: growing would leave
/// copies behind.
fn read(mut from: impl Read) -> io::Result<Zeroizing<Vec<u8>>> {
    let mut bytes = Zeroizing::new(vec![0; MAX_TEXT]);
    let mut filled = 0;
    loop {
        match from.read(&mut bytes[filled..]) {
            Ok(0) if filled == MAX_TEXT => {
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

fn parse(bytes: &[u8], source_name: &str) -> Result<KeyRing, KeyError> {
    let text = std::str::from_utf8(bytes).map_err(|_| KeyError::Text {
        source_name: source_name.to_owned(),
        what: "is no text, so no master key".to_owned(),
    })?;
    text::parse(text, source_name)
}

/// Start-up waits for the command no longer than an operator would.
const DEADLINE: Duration = Duration::from_secs(10);
/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(5);
/// Hundreds of keys with comments.
const MAX_TEXT: usize = 64 << 10;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_key_file_is_made_once_and_for_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let made = KeyRing::create_file(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let before = fs::read(&path).unwrap();
        let again = KeyRing::create_file(&path).unwrap_err();
        assert!(matches!(again, KeyError::Exists(_)), "{again}");
        assert_eq!(fs::read(&path).unwrap(), before);
        let loaded = KeySource::File(path).load().unwrap();
        assert_eq!(loaded.current(), made.current());
    }

    #[test]
    fn a_bad_key_file_says_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("master.key");
        let fails = |wanted: &str| {
            let error = KeySource::File(path.clone())
                .load()
                .unwrap_err()
                .to_string();
            assert!(
                error.contains("master.key") && error.contains(wanted),
                "{error}"
            );
        };
        fails("is missing");
        KeyRing::create_file(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
        fails("chmod 600");
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&path, [0xff; 10]).unwrap();
        fails("no text");
        fs::write(&path, vec![b'#'; MAX_TEXT + 1]).unwrap();
        fails("over 64 KiB");
        fs::write(&path, "").unwrap();
        fails("no key");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o700)).unwrap();
        fails("directory");
        let nowhere = KeyRing::create_file(&folder.path().join("no/master.key"));
        assert!(matches!(nowhere, Err(KeyError::File(..))));
    }

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
        let load = |line: &str, deadline| load_command(line, deadline);
        let second = Duration::from_secs(5);
        let loaded = load(&format!("cat '{}'", path.display()), second).unwrap();
        assert_eq!(loaded.current(), made.current());
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
            let error = load_command(line, deadline).unwrap_err();
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
