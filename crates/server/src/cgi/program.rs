//! CGI programs: where they lie, and who may change them.
//!
//! A program runs as the server's user, which can read the store and all keys. Whoever can
//! change the program, or put another one in its place, has the rights of the server.

mod survey;

use std::fs::{self, Metadata};
use std::io;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use rustix::io::Errno;
use rustix::process::geteuid;
use thiserror::Error;

use crate::site::open::{locate_beneath, open_folder, real_path};
pub use survey::{Survey, survey};

/// Program that nobody else may change, judged for one start: it is opened anew for the next
/// one.
#[derive(Clone, Debug)]
pub(crate) struct Program {
    /// Path without links. Only root and the server's user can put another file there.
    file: PathBuf,
}

/// Reasons why a program does not run.
#[derive(Debug, Error)]
pub enum Refused {
    /// No file has this path.
    #[error("there is no such program")]
    Absent,
    /// A link leads out of the folder of the entry, or of the root.
    #[error(
        "{0:?}: a link leads out of the folder of the cgi: entry in [sites] allow, or of the root"
    )]
    Link(PathBuf),
    /// Neither a file nor a folder, or a folder where a file must be.
    #[error("{0:?} is no regular file")]
    Irregular(PathBuf),
    /// The server's user may not execute the file.
    #[error(
        "{0:?}: the server's user may not execute it; `chmod a+x` it, and mount its file system without noexec"
    )]
    NotExecutable(PathBuf),
    /// Another user owns the file or folder, and may change its mode.
    #[error("{0:?} belongs to user {1}, who could change what the server runs; `chown root` it")]
    Owner(PathBuf, u32),
    /// Others than its owner may write the file or folder.
    #[error(
        "{0:?} can be written by others than its owner, who could change what the server runs; `chmod go-w` it"
    )]
    Writable(PathBuf),
    /// The system can't tell.
    #[error("{0:?} can't be judged: {1}")]
    Unknown(PathBuf, io::Error),
}

impl Program {
    /// Finds the program that the first segments of `path` name below `root`, and returns it
    /// with the rest of the path, which is empty or begins with a slash. The root lies in
    /// `entry`, a folder of `cgi:` in `[sites] allow`, or is that. Blocks.
    ///
    /// # Errors
    /// [`Refused`]. Only [`Refused::Absent`] says nothing about the operator's setup.
    pub(crate) fn find<'a>(
        entry: &Path,
        root: &Path,
        path: &'a str,
    ) -> Result<(Self, &'a str), Refused> {
        let below = root.strip_prefix(entry);
        let below = below.map_err(|_| Refused::Link(root.to_owned()))?;
        let opened = open_folder(entry, below).map_err(|error| unknown(root, error))?;
        let folder = opened.ok_or_else(|| Refused::Link(root.to_owned()))?;
        let path = path.trim_start_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at);
        for end in ends.chain([path.len()]).take(MOST_SEGMENTS) {
            let named = Path::new(&path[..end]);
            let failed = |error| unknown(&root.join(named), error);
            let located = locate_beneath(&folder, named).map_err(failed)?;
            if !located.metadata().map_err(failed)?.is_dir() {
                return Ok((Self::judge(entry, &located)?, &path[end..]));
            }
        }
        Err(Refused::Absent)
    }

    /// Judges a file, and each folder from the entry down to it. Whoever could swap one of
    /// them is refused with the folder above, which is judged first.
    fn judge(entry: &Path, located: &impl AsFd) -> Result<Self, Refused> {
        let failed = |error| unknown(entry, error);
        let mut path = fs::canonicalize(entry).map_err(failed)?;
        let real = real_path(located).map_err(failed)?;
        let Ok(below) = real.strip_prefix(&path) else {
            return Err(Refused::Link(real));
        };
        for name in below {
            judge_as(&path, Metadata::is_dir)?;
            path.push(name);
        }
        judge_as(&path, Metadata::is_file)?;
        access(&path, Access::EXEC_OK).map_err(|error| match error {
            Errno::ACCESS => Refused::NotExecutable(path.clone()),
            error => unknown(&path, error.into()),
        })?;
        Ok(Self { file: path })
    }

    /// Returns the path of the program, without links.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Returns the folder of the program, which it starts in (RFC 3875, section 7.2).
    pub(crate) fn folder(&self) -> &Path {
        self.file.parent().expect("it lies in the entry's folder")
    }
}

/// Judges a file or folder, which must be of a kind.
fn judge_as(path: &Path, is_kind: fn(&Metadata) -> bool) -> Result<(), Refused> {
    let metadata = fs::symlink_metadata(path).map_err(|error| unknown(path, error))?;
    match is_kind(&metadata) {
        true => judge(path, (metadata.uid(), metadata.mode()), geteuid().as_raw()),
        false => Err(Refused::Irregular(path.to_owned())),
    }
}

/// Refuses what others than root and the server's user may change. The sticky bit of a folder
/// does not help: others may still add files. Rights of an access control list show in the
/// group's bits.
fn judge(path: &Path, (owner, mode): (u32, u32), server: u32) -> Result<(), Refused> {
    if owner != 0 && owner != server {
        return Err(Refused::Owner(path.to_owned(), owner));
    }
    match mode & 0o022 {
        0 => Ok(()),
        _ => Err(Refused::Writable(path.to_owned())),
    }
}

fn unknown(path: &Path, error: io::Error) -> Refused {
    match Errno::from_io_error(&error) {
        // A name that no file can have is that of none.
        Some(Errno::NOENT | Errno::NOTDIR | Errno::NAMETOOLONG | Errno::INVAL) => Refused::Absent,
        Some(Errno::XDEV | Errno::LOOP) => Refused::Link(path.to_owned()),
        _ => Refused::Unknown(path.to_owned(), error),
    }
}

/// Segments of a path among which a program is looked for.
const MOST_SEGMENTS: usize = 32;

#[cfg(test)]
mod tests;
