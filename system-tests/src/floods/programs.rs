//! CGI programs: one that answers, and others that harm.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use tokio::time::{Instant, sleep};

use crate::flood::attacker::Kind;

/// Behaviour of a program towards each request. None heeds SIGTERM.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Program {
    /// Never answers
    Hung,
    /// Starts twenty more, and never answers
    Forking,
    /// Writes a line that is no head, and hangs
    Headless,
    /// Writes a gigabyte
    Writing,
    /// Writes a gigabyte to standard error
    Complaining,
    /// Begins an answer, and reads nothing of the body
    Deaf,
}

/// Programs with the requests that attack by them: as many as may run and more, few, those of
/// clients that read slowly, and large bodies.
pub(super) const ATTACKS: [(Program, Kind); 6] = [
    (Program::Hung, Kind::Requests),
    (Program::Forking, Kind::Requests),
    (Program::Headless, Kind::Requests),
    (Program::Writing, Kind::SlowReading),
    (Program::Complaining, Kind::Visits),
    (Program::Deaf, Kind::FullWindows),
];

impl Program {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Hung => "hung programs",
            Self::Forking => "forking programs",
            Self::Headless => "headless programs",
            Self::Writing => "a program's gigabyte",
            Self::Complaining => "a program's errors",
            Self::Deaf => "deaf programs",
        }
    }

    fn text(self) -> &'static str {
        match self {
            Self::Hung => "sleep 600",
            Self::Forking => {
                "for each in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do\n\
                 sleep 600 &\n\
                 done\n\
                 wait"
            }
            Self::Headless => "printf 'no head'; sleep 600",
            Self::Writing => {
                "printf 'Content-Type: text/plain\\n\\n'; exec head -c 1073741824 /dev/zero"
            }
            Self::Complaining => "exec head -c 1073741824 /dev/zero >&2",
            Self::Deaf => "printf 'Content-Type: text/plain\\n\\nhere'; sleep 600",
        }
    }
}

/// Folder of programs that others may not write.
pub(super) struct Programs(PathBuf);

impl Programs {
    pub(super) fn new(folder: &Path) -> Result<Self> {
        let programs = folder.join("programs");
        fs::create_dir(&programs)?;
        Ok(Self(programs))
    }

    /// Returns the entry of `[sites] allow` for the programs.
    pub(super) fn allow(&self) -> String {
        format!("cgi:{}", self.0.display())
    }

    /// Writes a program that harms; returns its site.
    pub(super) fn site(&self, program: Program) -> Result<Value> {
        let text = format!("trap '' TERM\n{}", program.text());
        Ok(json!({ "root": self.write("bad", &text)?, "cgi": true }))
    }

    /// Writes a program that answers; returns the site that has it below `/own`, beside pages.
    pub(super) fn beside(&self, pages: &Path) -> Result<Value> {
        let root = self.write("good", "printf 'Content-Length: 5\\n\\nhere\\n'")?;
        let own = json!({ "path": "/own", "root": root, "cgi": true, "strip": true });
        Ok(json!({ "root": pages, "paths": [own] }))
    }

    fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let folder = self.0.join(name);
        fs::create_dir(&folder)?;
        let program = folder.join("it");
        fs::write(&program, format!("#!/bin/sh\n{text}\n"))?;
        fs::set_permissions(&program, fs::Permissions::from_mode(0o755))?;
        Ok(folder)
    }

    /// Waits until no process runs in the folder of a program.
    ///
    /// # Errors
    /// If one goes on.
    pub(super) async fn are_gone(&self) -> Result<()> {
        let begun = Instant::now();
        loop {
            let left = self.left()?;
            if left == 0 {
                return Ok(());
            }
            ensure!(
                begun.elapsed() < ENDED,
                "{left} processes of programs go on"
            );
            sleep(POLL).await;
        }
    }

    fn left(&self) -> Result<usize> {
        let mut left = 0;
        for process in fs::read_dir("/proc")? {
            let cwd = fs::read_link(process?.path().join("cwd"));
            left += usize::from(cwd.is_ok_and(|cwd| cwd.starts_with(&self.0)));
        }
        Ok(left)
    }
}

/// Longest time until all are gone: SIGTERM comes 5 s after the clients left, SIGKILL 2 s
/// later.
const ENDED: Duration = Duration::from_secs(20);
const POLL: Duration = Duration::from_millis(50);
