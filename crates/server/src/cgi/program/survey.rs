//! Looks through the programs of a folder, for `sekisho check`.

use std::fs::{self, DirEntry, Metadata};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::{Program, Refused, judge_as, unknown};
use crate::site::open::{locate_beneath, open_folder};

/// Programs and folders of an entry that will not run.
#[derive(Debug, Default)]
pub struct Survey {
    /// Those found, 20 at most.
    pub refused: Vec<Refused>,
    /// The folder holds more files, or more that will not run.
    pub is_cut: bool,
}

/// Judges the files of an entry that anyone may execute, and its folders. Files that nobody
/// may execute are no programs. Blocks.
///
/// # Errors
/// [`Refused`], if nothing of the entry can run.
pub fn survey(entry: &Path) -> Result<Survey, Refused> {
    let failed = |error| unknown(entry, error);
    let entry = &fs::canonicalize(entry).map_err(failed)?;
    let opened = open_folder(entry, Path::new("")).map_err(failed)?;
    let top = opened.ok_or(Refused::Absent)?;
    let mut survey = Survey::default();
    let mut folders = vec![PathBuf::new()];
    let mut looked_at = 0;
    while let Some(folder) = folders.pop() {
        let path = entry.join(&folder);
        let files = match files_in(&path) {
            Ok(files) => files,
            // The folder's own problem stands for those of its files.
            Err(refused) => {
                survey.note(refused);
                continue;
            }
        };
        for file in files {
            looked_at += 1;
            if looked_at > MOST_FILES || survey.is_cut {
                survey.is_cut = true;
                return Ok(survey);
            }
            let below = folder.join(file.file_name());
            if file.file_type().is_ok_and(|kind| kind.is_dir()) {
                folders.push(below);
            } else if let Err(refused) = judge(entry, &top, &below) {
                survey.note(refused);
            }
        }
    }
    Ok(survey)
}

/// Lists a folder, if nobody else may write it.
fn files_in(folder: &Path) -> Result<impl Iterator<Item = DirEntry>, Refused> {
    judge_as(folder, Metadata::is_dir)?;
    let files = fs::read_dir(folder).map_err(|error| unknown(folder, error))?;
    Ok(files.flatten())
}

/// Judges a file if it is a program.
fn judge(entry: &Path, top: &OwnedFd, below: &Path) -> Result<(), Refused> {
    let failed = |error| unknown(&entry.join(below), error);
    let located = locate_beneath(top, below).map_err(failed)?;
    let metadata = located.metadata().map_err(failed)?;
    if !metadata.is_file() || metadata.mode() & 0o111 == 0 {
        return Ok(());
    }
    Program::judge(entry, &located).map(drop)
}

impl Survey {
    fn note(&mut self, refused: Refused) {
        match refused {
            // A link that leads nowhere, or a file that was removed meanwhile.
            Refused::Absent => {}
            refused if self.refused.len() < MOST_REFUSED => self.refused.push(refused),
            _ => self.is_cut = true,
        }
    }
}

/// Files and folders that are looked at.
const MOST_FILES: usize = 10_000;
/// Programs and folders that are named.
const MOST_REFUSED: usize = 20;
