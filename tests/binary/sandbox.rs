//! Sandbox: a folder with a configuration, in which the binary runs.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use sekisho_testkit::{Key, TestCa};
use serde_json::Value;
use tempfile::TempDir;

mod server;
mod upstream;

pub(crate) use server::Server;
pub(crate) use upstream::upstream;

/// Returns the path of the binary: `SEKISHO_TEST_BINARY`, absolute, or the one that is built
/// with the tests.
pub(crate) fn binary() -> OsString {
    env::var_os("SEKISHO_TEST_BINARY").unwrap_or_else(|| env!("CARGO_BIN_EXE_sekisho").into())
}

/// Removed when dropped.
pub(crate) struct Sandbox {
    folder: TempDir,
}

/// Result of a command.
pub(crate) struct Ran {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Sandbox {
    /// Makes a sandbox with a configuration that listens on free ports.
    pub(crate) fn new() -> Self {
        let sandbox = Self {
            folder: tempfile::tempdir().expect("a folder"),
        };
        sandbox.configure("");
        sandbox
    }

    /// Writes the configuration with further sections.
    pub(crate) fn configure(&self, more: &str) {
        self.write("sekisho.toml", &format!("{CONFIG}{more}"));
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: &str) {
        let path = self.path(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("a folder");
        fs::write(path, text).expect("a file");
    }

    /// Writes a file that only its owner may read.
    pub(crate) fn write_private(&self, name: &str, text: &str) {
        self.write(name, text);
        let mode = fs::Permissions::from_mode(0o600);
        fs::set_permissions(self.path(name), mode).expect("ours");
    }

    /// Replaces `[sites] allow`.
    pub(crate) fn allow(&self, entries: &[&str]) {
        let file = self.path("sekisho.toml");
        let config = fs::read_to_string(&file).expect("a file");
        let lines = config
            .lines()
            .map(|line| match line.starts_with("allow = ") {
                true => format!("allow = {entries:?}\n"),
                false => format!("{line}\n"),
            });
        fs::write(&file, lines.collect::<String>()).expect("a file");
    }

    /// Writes a page of the default site.
    pub(crate) fn page(&self, host: &str, text: &str) {
        self.write(&format!("www/{host}/index.html"), text);
    }

    /// Writes NAME.crt and NAME.key into a folder.
    pub(crate) fn pair(&self, stem: &str, names: &[&str], key: Key) {
        let pair = ca().issue(names, key);
        self.write(&format!("{stem}.crt"), &pair.chain_pem());
        self.write(&format!("{stem}.key"), &pair.key_pem());
    }

    /// Stores an ECDSA certificate for these names.
    pub(crate) fn import(&self, names: &[&str]) {
        self.import_type(names, Key::P256);
    }

    pub(crate) fn import_type(&self, names: &[&str], key: Key) {
        self.pair("import", names, key);
        self.ok(&[
            "cert",
            "import",
            "--chain",
            "import.crt",
            "--key",
            "import.key",
        ]);
    }

    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(binary());
        command
            .args(args)
            .current_dir(self.folder.path())
            .env_remove("SEKISHO_LOG")
            .stdin(Stdio::null());
        command
    }

    /// Runs a command. Its error text comes without the line that names the
    /// configuration.
    pub(crate) fn run(&self, args: &[&str]) -> Ran {
        let mut ran = Ran::of(&self.command(args).output().expect("the binary runs"));
        let using = format!("using {}\n", self.path("sekisho.toml").display());
        if let Some(rest) = ran.err.strip_prefix(&using) {
            ran.err = rest.to_owned();
        }
        ran
    }

    /// Allows one demo at a time: each takes the usual ports if they are free.
    pub(crate) fn demo(&self, args: &[&str]) -> Ran {
        static ONE: Mutex<()> = Mutex::new(());
        let _one = ONE.lock().unwrap_or_else(PoisonError::into_inner);
        self.run(&[&["demo"], args].concat())
    }

    /// Runs a command that must succeed; returns its standard output.
    pub(crate) fn ok(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(0), "{args:?}: {}", ran.err);
        ran.out
    }

    /// Runs a command and reads its output as JSON.
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let out = self.ok(args);
        serde_json::from_str(&out).unwrap_or_else(|error| panic!("{args:?}: {error}: {out}"))
    }

    /// Runs a command that must fail with exit code 1; returns its error text.
    pub(crate) fn fails(&self, args: &[&str]) -> String {
        let ran = self.run(args);
        assert_eq!(ran.code, Some(1), "{args:?}: {}{}", ran.out, ran.err);
        assert!(!ran.err.contains("panicked"), "{}", ran.err);
        ran.err
    }

    pub(crate) fn serve(&self) -> Server {
        Server::start(self.command(&["serve", "--log", "json"]))
    }

    pub(crate) fn root(&self) -> &Path {
        self.folder.path()
    }
}

impl Ran {
    pub(crate) fn of(output: &Output) -> Self {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            code: output.status.code(),
            out: text(&output.stdout),
            err: text(&output.stderr),
        }
    }
}

/// Returns the authority of all tests, which is made once: making keys is slow.
pub(crate) fn ca() -> &'static TestCa {
    static CA: OnceLock<TestCa> = OnceLock::new();
    CA.get_or_init(TestCa::new)
}

/// Tells whether `has` is true. Else the test fails, unless the environment says
/// `SEKISHO_TEST_WITHOUT=root`: the test is then left out.
pub(crate) fn needs(what: &str, has: bool) -> bool {
    let left_out = || env::var_os(WITHOUT).is_some_and(|without| without == "root");
    assert!(
        has || left_out(),
        "this test needs {what}; run it as root, or leave such tests out with {WITHOUT}=root"
    );
    if !has {
        eprintln!("left out: this test needs {what}");
    }
    has
}

/// Polls until the answer is true; fails at the deadline.
pub(crate) fn until(what: &str, deadline: Duration, mut asked: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !asked() {
        assert!(
            begun.elapsed() < deadline,
            "{what}: not within {deadline:?}"
        );
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A change is served after 100 ms at the latest; the rest is what a loaded
/// machine may take to run the command and the handshakes.
pub(crate) const SOON: Duration = Duration::from_secs(30);

const WITHOUT: &str = "SEKISHO_TEST_WITHOUT";

const CONFIG: &str = "\
[listen]
https = [\"127.0.0.1:0\"]
http = [\"127.0.0.1:0\"]
admin = \"127.0.0.1:0\"
[store]
url = \"sqlite:hosts.db\"
[keys]
master = \"file:master.key\"
[site]
root = \"www/{host}\"
[sites]
allow = [\".\"]
";
