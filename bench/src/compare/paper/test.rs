//! Tests whose result is a table of their own: programs of this workspace that judge
//! themselves, and write figures as JSON.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::Command;

use super::super::options::Options;
use super::super::server::relative;
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

/// This program: its tests start no sekisho.
pub(crate) const BENCH: &str = "sekisho-bench";
/// Tests of a server.
pub(crate) const SYSTEM: &str = "sekisho-system-tests";

impl Test {
    /// Runs the test. Ours is the trained build if there is one: the result is of one build.
    pub(crate) async fn run(&self, options: &Options) -> Result<Kept> {
        let own = std::env::current_exe().context("this program has no path")?;
        let json = options.work.join(format!("{}.json", self.id));
        // A killed run may have left one, which is not of this run.
        let _ = fs::remove_file(&json);
        let arguments = self.arguments(options, &json);
        let line = relative(&format!("{} {}", self.program, arguments.join(" ")));
        eprintln!("{}: {line}", self.id);
        let mut command = Command::from(tied::command());
        command
            .arg(own.with_file_name(self.program))
            .args(&arguments);
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

    fn arguments(&self, options: &Options, json: &Path) -> Vec<String> {
        let mut arguments: Vec<String> = self.arguments.iter().map(ToString::to_string).collect();
        arguments.extend(["--json".to_owned(), json.display().to_string()]);
        if self.program == SYSTEM {
            let binary = options.trained.as_ref().unwrap_or(&options.sekisho);
            arguments.extend(["--sekisho".to_owned(), binary.display().to_string()]);
        }
        if options.quick {
            let further = self.quick.unwrap_or_default().iter();
            arguments.extend(further.map(ToString::to_string));
        }
        arguments
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
