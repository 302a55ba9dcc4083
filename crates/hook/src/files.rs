//! Files with PEM, read below the folders of the configuration and nowhere else.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags, fstat, openat, openat2, stat};
use rustix::io::Errno;
use tokio::sync::Semaphore;

use sekisho_certs::{Secret, lock};

/// Folders that scripts may read, kept open.
#[derive(Debug)]
pub(crate) struct Folders {
    each: Vec<Arc<Folder>>,
    /// Turns to read: a slow disk takes no more threads than that.
    turns: Arc<Semaphore>,
}

#[derive(Debug)]
struct Folder {
    path: PathBuf,
    open: Mutex<Opened>,
}

/// Open folder with the device and inode that its path led to.
#[derive(Clone, Debug)]
struct Opened {
    fd: Arc<OwnedFd>,
    id: (u64, u64),
}

/// Reason why a file was not read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Unread {
    /// There is no such file.
    Absent,
    /// The path is not allowed, or the read failed.
    Failed(String),
}

impl Folders {
    /// Opens the folders.
    ///
    /// # Errors
    /// Names the folder that can't be opened.
    pub(crate) fn open(paths: &[PathBuf]) -> Result<Self, String> {
        let open = |path: &PathBuf| {
            let opened = Opened::at(path).map_err(|error| unopened(path, error))?;
            Ok(Arc::new(Folder {
                path: path.clone(),
                open: Mutex::new(opened),
            }))
        };
        Ok(Self {
            each: paths.iter().map(open).collect::<Result<_, String>>()?,
            turns: Arc::new(Semaphore::new(READS)),
        })
    }

    /// Reads a file on another thread. A path that is not absolute is one below the
    /// first folder.
    pub(crate) async fn read(&self, path: &[u8]) -> Result<Secret, Unread> {
        let (folder, path) = self.find(path).map_err(Unread::Failed)?;
        let turn = Arc::clone(&self.turns).acquire_owned().await;
        let read = tokio::task::spawn_blocking(move || {
            let content = folder.current().and_then(|open| read(&open, &path));
            // A read that hangs keeps its turn, whoever has left.
            drop(turn);
            content
        });
        read.await
            .unwrap_or_else(|_| Err(Unread::Failed("the read was broken off".into())))
    }

    /// Returns the folder that a path lies in, and the path below it.
    fn find(&self, path: &[u8]) -> Result<(Arc<Folder>, PathBuf), String> {
        let text = std::str::from_utf8(path).map_err(|_| "the path is not UTF-8")?;
        if text.is_empty() || text.contains('\0') || text.len() > MAX_PATH {
            return Err("the path is empty, too long, or has a NUL in it".into());
        }
        let path = Path::new(text);
        if path.components().any(|part| part == Component::ParentDir) {
            return Err("the path has `..` in it".into());
        }
        let inside = |folder: &Arc<Folder>| {
            let below = match path.is_absolute() {
                true => path.strip_prefix(&folder.path).ok()?,
                false => path,
            };
            Some((Arc::clone(folder), below.to_owned()))
        };
        let outside = || "the path is below none of [hook] folders".to_owned();
        self.each.iter().find_map(inside).ok_or_else(outside)
    }
}

impl Folder {
    /// Returns the folder that the path leads to now: a deployment may have put another
    /// one there. A folder that is gone is no absence of its files.
    fn current(&self) -> Result<Arc<OwnedFd>, Unread> {
        let known = lock(&self.open).clone();
        let gone = |error| Unread::Failed(unopened(&self.path, error));
        match stat(&self.path) {
            Ok(now) if (now.st_dev, now.st_ino) == known.id => return Ok(known.fd),
            Ok(_) => {}
            Err(error @ (Errno::NOENT | Errno::NOTDIR)) => return Err(gone(error)),
            // The server may have lost the right to search the path since its start.
            Err(_) => return Ok(known.fd),
        }
        let opened = Opened::at(&self.path).map_err(gone)?;
        *lock(&self.open) = opened.clone();
        Ok(opened.fd)
    }
}

impl Opened {
    fn at(path: &Path) -> Result<Self, Errno> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = openat(CWD, path, flags, Mode::empty())?;
        let is = fstat(&fd)?;
        Ok(Self {
            fd: Arc::new(fd),
            id: (is.st_dev, is.st_ino),
        })
    }
}

/// Returns the error of a folder that can't be opened.
fn unopened(path: &Path, error: Errno) -> String {
    let (shown, error) = (path.display(), io::Error::from(error));
    format!("the folder {shown} can't be opened: {error}")
}

fn read(folder: &OwnedFd, path: &Path) -> Result<Secret, Unread> {
    // NONBLOCK: a pipe in the folder must not hold the thread.
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = match open_within(folder, path, flags) {
        Ok(file) => File::from(file),
        // No file has a name that is too long.
        Err(Errno::NOTDIR | Errno::NAMETOOLONG) => return Err(Unread::Absent),
        Err(Errno::NOENT) => return Err(missing(folder, path)),
        Err(Errno::XDEV) => {
            return Err(Unread::Failed("the path leaves its folder".into()));
        }
        Err(error) => return Err(failed(&io::Error::from(error))),
    };
    let metadata = file.metadata().map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        return Err(Unread::Failed("the path is not a file".into()));
    }
    if metadata.len() > MAX_FILE {
        let what = format!("the file has more than {} KiB", MAX_FILE / 1024);
        return Err(Unread::Failed(what));
    }
    // Room for all of it from the start: a key in a buffer that grew stays behind.
    let room = metadata.len() + 1;
    let mut bytes = Vec::with_capacity(usize::try_from(room).expect("256 KiB at most"));
    let read = file.take(room).read_to_end(&mut bytes);
    let secret = Secret::new(bytes);
    read.map_err(|error| failed(&error))?;
    match secret.expose().len() as u64 == room {
        true => Err(Unread::Failed("the file grew while it was read".into())),
        false => Ok(secret),
    }
}

/// Tells a file that is not there from a link whose target is away: a file system may
/// not be mounted.
fn missing(folder: &OwnedFd, path: &Path) -> Unread {
    let open = |path: &Path, more| open_within(folder, path, OFlags::PATH | more).ok();
    let mut above = path
        .ancestors()
        .filter(|above| !above.as_os_str().is_empty());
    // The file itself, else the lowest folder above it that is there.
    let found = above.find_map(|above| Some((above, open(above, OFlags::NOFOLLOW)?)));
    match found {
        Some((at, found)) if is_link(&found) && open(at, OFlags::empty()).is_none() => {
            Unread::Failed("the path is a broken link".into())
        }
        _ => Unread::Absent,
    }
}

/// Opens what a path below the folder leads to. The path must not leave the folder.
fn open_within(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let within = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    openat2(folder, path, flags | OFlags::CLOEXEC, Mode::empty(), within)
}

fn is_link(found: &OwnedFd) -> bool {
    fstat(found).is_ok_and(|is| FileType::from_raw_mode(is.st_mode) == FileType::Symlink)
}

fn failed(error: &io::Error) -> Unread {
    Unread::Failed(error.to_string())
}

/// Bytes of a file: a chain with many certificates has 64 KiB.
const MAX_FILE: u64 = 256 * 1024;
const MAX_PATH: usize = 4096;
/// Reads at a time: as many as a worker has threads beside those that read pages.
const READS: usize = 8;
