//! Unix socket of the admin listener, and its file.

use std::fs::{self, Permissions};
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream as BlockingUnixStream};
use std::path::{Path, PathBuf};
use std::process;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::net::UnixListener;

use super::{Address, not_of};

/// Unix socket that removes its file when it is dropped, unless the file is another
/// process's.
#[derive(Debug)]
pub(super) struct UnixSocket {
    pub(super) listener: UnixListener,
    pub(super) path: PathBuf,
    inode: u64,
    /// Set if this process removes the file. Relaxed suffices: the flag guards no other data.
    pub(super) has_file: AtomicBool,
}

impl UnixSocket {
    /// Binds beside `path` and renames: no client can connect before the mode
    /// is set, and a stale socket is replaced atomically.
    pub(super) fn bind(path: &Path) -> io::Result<Self> {
        refuse_foreign(path)?;
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".{}", process::id()));
        let beside = PathBuf::from(beside);
        // A former process with this id may have left the file.
        if fs::symlink_metadata(&beside).is_ok_and(|left| left.file_type().is_socket()) {
            fs::remove_file(&beside)?;
        }
        let listener = UnixListener::bind(&beside)?;
        let named = fs::set_permissions(&beside, Permissions::from_mode(0o600))
            .and_then(|()| fs::symlink_metadata(&beside))
            .and_then(|metadata| fs::rename(&beside, path).map(|()| metadata.ino()));
        if named.is_err() {
            // The first error is reported, not this one.
            let _ = fs::remove_file(&beside);
        }
        Ok(Self {
            listener,
            path: path.to_owned(),
            inode: named?,
            has_file: AtomicBool::new(true),
        })
    }

    /// Listens on a socket that `bind` of another process made. The system tells no more of
    /// its file than the name that it was bound by.
    pub(super) fn inherit(path: &Path, descriptor: OwnedFd) -> io::Result<Self> {
        let wanted = || not_of(&Address::Unix(path.to_owned()));
        let listener = StdUnixListener::from(descriptor);
        let bound = listener.local_addr()?;
        let is_ours = bound
            .as_pathname()
            .is_some_and(|bound| is_beside(bound, path));
        let there = fs::symlink_metadata(path).map_err(|_| wanted())?;
        if !is_ours || !there.file_type().is_socket() {
            return Err(wanted());
        }
        listener.set_nonblocking(true)?;
        Ok(Self {
            listener: UnixListener::from_std(listener)?,
            path: path.to_owned(),
            inode: there.ino(),
            has_file: AtomicBool::new(false),
        })
    }
}

impl Drop for UnixSocket {
    fn drop(&mut self) {
        if !self.has_file.load(Ordering::Relaxed) {
            return;
        }
        let is_own = |metadata: fs::Metadata| metadata.ino() == self.inode;
        if fs::symlink_metadata(&self.path).is_ok_and(is_own) {
            // The next start replaces a file that stays.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Tells whether a name is that of a path with a process id behind it.
fn is_beside(bound: &Path, path: &Path) -> bool {
    let bound = bound.as_os_str().as_encoded_bytes();
    let suffix = bound.strip_prefix(path.as_os_str().as_encoded_bytes());
    let id = suffix.and_then(|suffix| suffix.strip_prefix(b"."));
    id.is_some_and(|id| !id.is_empty() && id.iter().all(u8::is_ascii_digit))
}

/// Refuses to replace a file that is no socket, and a socket with a listener.
fn refuse_foreign(path: &Path) -> io::Result<()> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        other => other?,
    };
    if !metadata.file_type().is_socket() {
        let text = "another file is in its place; remove it, or choose another path";
        return Err(io::Error::new(io::ErrorKind::AlreadyExists, text));
    }
    match BlockingUnixStream::connect(path) {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let text = "another process listens on it";
            Err(io::Error::new(io::ErrorKind::AddrInUse, text))
        }
    }
}
