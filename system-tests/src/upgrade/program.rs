//! Program on disk, which upgrades replace, and the processes that run it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::process::{Pid, Signal, kill_process};

/// File at a path of its own. Processes that still run it are killed when this is dropped.
pub(super) struct Program {
    good: PathBuf,
    path: PathBuf,
}

/// What a broken program does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Broken {
    /// Exits with an error
    Exits,
    /// Never says that it is ready
    Hangs,
}

impl Program {
    /// Copies a binary into a new folder.
    pub(super) fn new(good: &Path, folder: &Path) -> Result<Self> {
        fs::create_dir(folder)?;
        let program = Self {
            good: good.to_owned(),
            path: folder.join("sekisho"),
        };
        program.install()?;
        Ok(program)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Replaces the file by another copy of the binary, as a package manager does.
    pub(super) fn install(&self) -> Result<()> {
        let new = self.path.with_extension("new");
        fs::copy(&self.good, &new).with_context(|| self.good.display().to_string())?;
        Ok(fs::rename(new, &self.path)?)
    }

    /// Replaces the file by a program that is no server.
    pub(super) fn install_broken(&self, how: Broken) -> Result<()> {
        let text = match how {
            Broken::Exits => "#!/bin/sh\necho 'no server' >&2\nexit 3\n",
            Broken::Hangs => "#!/bin/sh\nexec sleep 600\n",
        };
        let new = self.path.with_extension("new");
        fs::write(&new, text)?;
        fs::set_permissions(&new, fs::Permissions::from_mode(0o755))?;
        Ok(fs::rename(new, &self.path)?)
    }

    /// Returns the ids of the processes that run the binary, replaced or not.
    pub(super) fn processes(&self) -> Result<Vec<u32>> {
        let path = self.path.to_string_lossy();
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc")? {
            let entry = entry?;
            let Ok(pid) = entry.file_name().to_string_lossy().parse() else {
                continue;
            };
            // A process may have ended meanwhile, or belong to another user.
            let Ok(program) = fs::read_link(entry.path().join("exe")) else {
                continue;
            };
            if program.to_string_lossy().starts_with(&*path) {
                found.push(pid);
            }
        }
        Ok(found)
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        for pid in self.processes().unwrap_or_default() {
            if let Some(pid) = i32::try_from(pid).ok().and_then(Pid::from_raw) {
                // It may have ended meanwhile.
                let _ = kill_process(pid, Signal::KILL);
            }
        }
    }
}
