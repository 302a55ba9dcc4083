//! Tests whose result is a table of their own: programs of this workspace that judge
//! themselves, and write figures as JSON.

use std::ffi::OsStr;
use std::{fs, iter};

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::super::options::Options;
use super::super::tied;
use super::kept::{Kept, read};

/// Test of a part.
#[derive(Debug)]
pub(crate) struct Test {
    pub(crate) id: &'static str,
    /// Name of its program, which lies beside this one.
    pub(crate) program: &'static str,
    pub(crate) arguments: &'static [&'static str],
    /// Further arguments of a quick run; None if that leaves the test out.
    pub(crate) quick: Option<&'static [&'static str]>,
}

/// This program, which needs no server for the tests that it has.
pub(crate) const BENCH: &str = "sekisho-bench";
/// Tests of a server.
pub(crate) const SYSTEM: &str = "sekisho-system-tests";

impl Test {
    /// Runs the test. Ours is the trained build if there is one: the result is of one build.
    pub(crate) async fn run(&self, options: &Options) -> Result<Kept> {
        let own = std::env::current_exe().context("this program has no path")?;
        let json = options.work.join(format!("{}.json", self.id));
        // Of a run that was killed; an old result is none of this one.
        let _ = fs::remove_file(&json);
        let mut command = Command::from(tied::command());
        command.arg(own.with_file_name(self.program));
        command.args(self.arguments).arg("--json").arg(&json);
        if self.program == SYSTEM {
            let binary = options.trained.as_ref().unwrap_or(&options.sekisho);
            command.arg("--sekisho").arg(binary);
        }
        if options.quick {
            command.args(self.quick.unwrap_or_default());
        }
        let arguments = command.as_std().get_args();
        let words = iter::once(OsStr::new(self.program)).chain(arguments);
        let words: Vec<_> = words.map(OsStr::to_string_lossy).collect();
        let line = words.join(" ");
        let line = line.replace(&format!("{} ", tied::TIE.join(" ")), "");
        eprintln!("{}: {line}", self.id);
        let child = command.spawn();
        let mut child = child.with_context(|| format!("cannot run {}", self.program))?;
        // A signal that ends this run ends the test, which ends its servers.
        let mut ending = Ending(child.id());
        let status = child.wait().await?;
        ending.0 = None;
        let kept: Option<Kept> = read(&json)?;
        let mut kept =
            kept.with_context(|| format!("{line} ended with {status}, without figures"))?;
        fs::remove_file(&json)?;
        ensure!(
            status.success() || kept.result.failures() > 0,
            "{line} ended with {status}, and its figures show no failure"
        );
        kept.result.id = self.id.into();
        for case in &mut kept.result.cases {
            case.commands = vec![line.clone()];
        }
        Ok(kept)
    }
}

/// Guard of a running program, which gets SIGTERM when dropped.
struct Ending(Option<u32>);

impl Drop for Ending {
    fn drop(&mut self) {
        let id = self.0.and_then(|id| i32::try_from(id).ok());
        if let Some(id) = id.and_then(Pid::from_raw) {
            // The program may have ended by itself.
            let _ = kill_process(id, Signal::TERM);
        }
    }
}
