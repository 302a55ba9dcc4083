//! Runs real programs: small shell scripts.

mod ends;
mod limits;
mod starts;

use std::fs::{self, Permissions};
use std::future::poll_fn;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use sekisho_certs::HostName;
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

    /// Makes a start without an environment, and a limit that no test reaches.
    fn job(&self) -> Job {
        let host = HostName::parse("a.example").unwrap();
        Job {
            program: self.program(),
            environment: Vec::new(),
            complaints: Complaints::new(&Arc::default(), (&host, &Tenant::default()), "run"),
            total: Duration::from_secs(60),
        }
    }

    async fn start(&self) -> Running {
        start(&Programs::new(AT_ONCE), self.job()).await.unwrap()
    }

    /// Starts the script without a body, and returns all of its output.
    async fn run(lines: &str) -> Result<String, Failure> {
        let script = Self::new(lines);
        let mut running = script.start().await;
        running.input = None;
        all(running).await
    }
}

/// Starts a program of one client.
async fn start(programs: &Programs, job: Job) -> Result<Running, StartError> {
    let whose = (&Tenant::default(), client(1));
    programs.start(job, whose, soon(20)).await
}

/// Reads the next piece of output.
async fn piece(running: &mut Running) -> Result<Option<Bytes>, Failure> {
    poll_fn(|cx| running.poll_output(cx)).await
}

/// Reads the output to its end.
async fn all(mut running: Running) -> Result<String, Failure> {
    let mut text = Vec::new();
    while let Some(piece) = piece(&mut running).await? {
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
