//! Certificates on a file system that hangs: a folder that leads to those of a fixture, or to
//! pipes that nobody writes to. A pipe holds the thread that reads it as long as a network
//! file system whose server is gone.

use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use rustix::fs::{CWD, FileType, Mode, mknodat};

use crate::fixtures::{Folder, host_name};

/// Folder in which [`prepare`] lays out the files.
#[derive(Clone, Debug)]
pub(crate) struct Hanging(pub(crate) PathBuf);

impl Hanging {
    /// Lays out the files of so many hosts. They are well at first.
    pub(crate) fn prepare(&self, fixture: &Path, hosts: usize) -> Result<()> {
        if self.0.exists() {
            fs::remove_dir_all(&self.0)?;
        }
        let held = Folder(&self.held()).hosts();
        fs::create_dir_all(&held)?;
        mknodat(CWD, self.pipe(), FileType::Fifo, Mode::RUSR | Mode::WUSR, 0)?;
        for number in 0..hosts {
            let chain = format!("{}.crt", host_name(number));
            symlink(self.pipe(), held.join(chain))?;
        }
        symlink(fixture, self.well())?;
        self.lead_to(&self.well())
    }

    /// Returns the folder of the certificates, which hang at times.
    pub(crate) fn fixture(&self) -> PathBuf {
        self.0.join("fixture")
    }

    /// Lets the files hang until the guard is dropped.
    pub(crate) fn hang(self) -> Result<Hung> {
        // For both directions: opening the other end alone would wait for a reader, and one
        // that opens it later reads until the end, which comes with the last writer's.
        let pipe = File::options().read(true).write(true).open(self.pipe());
        let pipe = pipe.with_context(|| format!("cannot open {}", self.pipe().display()))?;
        self.lead_to(&self.held())?;
        Ok(Hung {
            files: self,
            _pipe: pipe,
        })
    }

    /// Changes where the folder leads, at once for all files.
    fn lead_to(&self, target: &Path) -> Result<()> {
        let begun = self.0.join("begun");
        symlink(target, &begun)?;
        Ok(fs::rename(begun, self.fixture())?)
    }

    fn well(&self) -> PathBuf {
        self.0.join("well")
    }

    fn held(&self) -> PathBuf {
        self.0.join("held")
    }

    fn pipe(&self) -> PathBuf {
        self.0.join("pipe")
    }
}

/// Guard of files that hang. Those who read a file find it empty afterwards.
pub(crate) struct Hung {
    files: Hanging,
    _pipe: File,
}

impl Drop for Hung {
    fn drop(&mut self) {
        // The pipe is closed after this: a reader goes on with files that are well.
        if let Err(error) = self.files.lead_to(&self.files.well()) {
            eprintln!("cannot put files back: {error:#}");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_reader_waits_until_the_files_are_well_again() {
        let folder = tempfile::tempdir().unwrap();
        let fixture = folder.path().join("fixture");
        fs::create_dir_all(Folder(&fixture).hosts()).unwrap();
        fs::write(Folder(&fixture).chain(&host_name(1)), "chain").unwrap();
        let hanging = Hanging(folder.path().join("hanging"));
        for _ in 0..2 {
            hanging.prepare(&fixture, 2).unwrap();
        }
        let chain = Folder(&hanging.fixture()).chain(&host_name(1));
        assert_eq!(fs::read(&chain).unwrap(), b"chain");
        let hung = hanging.hang().unwrap();
        let (sender, receiver) = mpsc::channel();
        let reader = {
            let chain = chain.clone();
            thread::spawn(move || sender.send(fs::read(chain).unwrap()))
        };
        let waits = receiver.recv_timeout(Duration::from_millis(200));
        assert!(waits.is_err(), "{waits:?}");
        drop(hung);
        assert_eq!(
            receiver.recv_timeout(Duration::from_secs(10)),
            Ok(Vec::new())
        );
        reader.join().unwrap().unwrap();
        assert_eq!(fs::read(chain).unwrap(), b"chain");
    }
}
