//! Runs real programs: small shell scripts.

mod ends;
mod limits;
mod starts;

use std::fs::{self, Permissions};
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

use tempfile::TempDir;

use super::*;

/// Makes the network of a client.
fn client(number: u8) -> Prefix {
    IpAddr::from([192, 0, number, 1]).into()
}

/// Folder with one program, `run`.
struct Script(TempDir);

impl Script {
    /// Makes a script of these lines. Another process writes the file: this one has other
    /// threads that start programs, which would inherit its descriptor, and no file that is
    /// open for writing can be executed.
    fn new(lines: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let mut shell = Command::new("/bin/sh")
            .args(["-c", "umask 022; cat >\"$0\"; chmod 755 \"$0\""])
            .arg(folder.path().join("run"))
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = shell.stdin.take().unwrap();
        write!(input, "#!/bin/sh\n{lines}\n").unwrap();
        drop(input);
        assert!(shell.wait().unwrap().success());
        Self(folder)
    }

    /// Makes a copy of a program of the system. No shell changes what that finds.
    fn copy_of(program: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
        let run = folder.path().join("run");
        let copied = Command::new("/bin/cp").arg(program).arg(run).status();
        assert!(copied.unwrap().success());
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn program(&self) -> Program {
        Program::find(self.path(), self.path(), "run").unwrap().0
    }

    async fn start(&self, limits: Limits) -> Running {
        self.start_with(&Programs::new(Most::default()), Vec::new(), limits)
            .await
            .unwrap()
    }

    async fn start_with(
        &self,
        programs: &Programs,
        environment: Environment,
        limits: Limits,
    ) -> Result<Running, StartError> {
        let tenant = Tenant::default();
        let whose = ("a.example", &tenant, client(1));
        programs
            .start(self.program(), environment, whose, limits, soon(20))
            .await
    }

    /// Starts the script without a body, and returns all of its output.
    async fn run(lines: &str) -> Result<String, Failure> {
        let script = Self::new(lines);
        let Running { input, output } = script.start(LONG).await;
        drop(input);
        all(output).await
    }
}

/// Reads the output to its end.
async fn all(mut output: Output) -> Result<String, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = output.piece().await? {
        text.extend_from_slice(&piece);
    }
    Ok(String::from_utf8(text).unwrap())
}

fn soon(seconds: u64) -> Instant {
    Instant::now() + Duration::from_secs(seconds)
}

/// Returns whether a process runs; a zombie does not.
fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim()));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

/// Waits until none of the processes runs.
async fn all_end(pids: &str) {
    while pids.split_whitespace().any(runs) {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// Limits that no test reaches.
const LONG: Limits = Limits {
    first_byte: Duration::from_secs(60),
    idle: Duration::from_secs(60),
    total: Duration::from_secs(60),
};
