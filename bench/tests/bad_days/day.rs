//! A folder in which the benchmark runs, with doubles of its peers.

use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// Work folder, results, and a folder of programs outside of which the benchmark finds none.
pub(crate) struct Day(TempDir);

/// End of a run, as a user sees it.
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) last_line: String,
    pub(crate) errors: String,
}

impl Day {
    /// Returns a day on which nginx is the only peer.
    pub(crate) fn new() -> Self {
        let day = Self(tempfile::tempdir().unwrap());
        fs::create_dir(day.path("bin")).unwrap();
        for name in PROGRAMS {
            symlink(program(name), day.path("bin").join(name)).unwrap();
        }
        day
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Puts a script in the place of a program. `$REAL` is nginx; `$last` is the last argument,
    /// the file of the configuration unless the program is asked for its version.
    pub(crate) fn double(&self, name: &str, script: &str) {
        let real = program("nginx");
        let text = format!(
            "#!/bin/sh\nREAL={}\nfor last; do :; done\n\
             case $last in -v | -V) echo 'a double'; exit ;; esac\n{script}\n",
            real.display()
        );
        let file = self.path("bin").join(name);
        // A link: writing would go to the program itself.
        let _ = fs::remove_file(&file);
        fs::write(&file, text).unwrap();
        fs::set_permissions(&file, Permissions::from_mode(0o755)).unwrap();
    }

    /// Returns `sekisho-bench paper --quick` with further arguments.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.command_by(&[], arguments)
    }

    /// Returns such a command behind another one, which runs it.
    pub(crate) fn command_by(&self, before: &[&str], arguments: &[&str]) -> Command {
        let mut words = before.iter().copied().chain([BENCH]);
        let mut command = Command::new(words.next().unwrap());
        command
            .args(words)
            .args(["paper", "--quick", "--work", "work", "--out", "out"])
            .arg("--sekisho")
            .arg(sekisho())
            .args(arguments)
            .current_dir(self.0.path())
            .env("PATH", self.path("bin"))
            .stdin(Stdio::null());
        command
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        Ended::of(self.command(arguments))
    }

    /// Reads the report of a part.
    pub(crate) fn report(&self, part: &str) -> String {
        fs::read_to_string(self.path("out").join(format!("{part}.md"))).unwrap()
    }

    /// Reads the result of a row.
    pub(crate) fn kept(&self, row: &str) -> Value {
        let text = fs::read(self.path("out").join(format!("{row}.json"))).unwrap();
        serde_json::from_slice(&text).unwrap()
    }

    /// Returns the error of a case, if it failed.
    pub(crate) fn error(&self, row: &str, label: &str) -> Option<String> {
        let kept = self.kept(row);
        let mut cases = kept["cases"].as_array().unwrap().iter();
        let case = cases.find(|case| case["label"] == label).unwrap();
        let has_figures = case["figures"]
            .as_array()
            .is_some_and(|all| !all.is_empty());
        assert_eq!(case["error"].is_null(), has_figures, "{case}");
        case["error"].as_str().map(str::to_owned)
    }
}

impl Ended {
    pub(crate) fn of(mut command: Command) -> Self {
        let Output {
            status,
            stdout,
            stderr,
        } = command.output().unwrap();
        let said = String::from_utf8(stdout).unwrap();
        let errors = String::from_utf8(stderr).unwrap();
        // Shown if the test fails.
        println!("{said}{errors}");
        Self {
            code: status.code(),
            last_line: said.lines().last().unwrap_or_default().to_owned(),
            errors,
        }
    }
}

/// Returns the server: `SEKISHO_TEST_BINARY`, absolute, or the one that tests of the workspace
/// build.
fn sekisho() -> PathBuf {
    let built = Path::new(BENCH).with_file_name("sekisho");
    let program = std::env::var_os("SEKISHO_TEST_BINARY").map_or(built, PathBuf::from);
    assert!(
        program.is_file(),
        "there is no {}; run `cargo build --bin sekisho`",
        program.display()
    );
    program
}

fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
    let mut programs = folders.map(|folder| folder.join(name));
    let found = programs.find(|program| program.is_file());
    found.unwrap_or_else(|| panic!("there is no {name}; run `make deps`"))
}

const BENCH: &str = env!("CARGO_BIN_EXE_sekisho-bench");
/// Programs that the benchmark and the doubles run.
const PROGRAMS: [&str; 15] = [
    "cat", "date", "git", "mkdir", "mount", "nginx", "prlimit", "rm", "sed", "setpriv", "sh",
    "sleep", "taskset", "unshare", "true",
];
