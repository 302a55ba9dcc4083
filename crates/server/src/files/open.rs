//! Opens files without leaving their root.

use std::fs::File;
use std::io;
use std::path::Path;

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;

/// Opens a root, which may be a symbolic link.
pub(crate) fn open_root(root: &Path) -> io::Result<OwnedFd> {
    Ok(open(root, STEP, Mode::empty())?)
}

/// Opens `relative` below `root` for reading.
///
/// Symbolic links are followed while they stay below the root. Absolute ones
/// never do. The open does not block on a FIFO or a device.
pub(crate) fn open_beneath(root: &OwnedFd, relative: &str) -> io::Result<File> {
    for _ in 0..MAX_ATTEMPTS {
        match openat2(
            root,
            relative,
            READ,
            Mode::empty(),
            ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS,
        ) {
            Ok(file) => return Ok(file.into()),
            // A directory of the path was renamed meanwhile.
            Err(Errno::AGAIN) => {}
            // openat2 is missing before Linux 5.6, and under seccomp filters
            // that don't know it.
            Err(Errno::NOSYS | Errno::PERM) => return open_stepwise(root, relative),
            Err(error) => return Err(error.into()),
        }
    }
    Err(Errno::AGAIN.into())
}

/// Opens `relative` without openat2: one segment at a time, without following
/// symbolic links.
fn open_stepwise(root: &OwnedFd, relative: &str) -> io::Result<File> {
    let mut directory = root.try_clone()?;
    let mut rest = relative;
    while let Some((segment, behind)) = rest.split_once('/') {
        directory = openat(directory, segment, STEP | OFlags::NOFOLLOW, Mode::empty())?;
        rest = behind;
    }
    Ok(openat(directory, rest, READ | OFlags::NOFOLLOW, Mode::empty())?.into())
}

const STEP: OFlags = OFlags::PATH.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const READ: OFlags = OFlags::RDONLY
    .union(OFlags::NONBLOCK)
    .union(OFlags::NOCTTY)
    .union(OFlags::CLOEXEC);
/// Attempts while directories of the path are renamed.
const MAX_ATTEMPTS: usize = 8;

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Read;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn without_the_kernels_help_no_link_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir_all(root.join("a/b")).unwrap();
        fs::write(root.join("a/b/page.txt"), "page").unwrap();
        fs::write(folder.path().join("secret.txt"), "secret").unwrap();
        symlink("../secret.txt", root.join("out.txt")).unwrap();
        symlink("..", root.join("up")).unwrap();
        symlink("a/b", root.join("inside")).unwrap();

        let root = open_root(&root).unwrap();
        let open_stepwise = |path| open_stepwise(&root, path);
        let mut text = String::new();
        let mut file = open_stepwise("a/b/page.txt").unwrap();
        file.read_to_string(&mut text).unwrap();
        assert_eq!(text, "page");
        assert!(open_stepwise("a/b").unwrap().metadata().unwrap().is_dir());
        for path in [
            "out.txt",
            "up/secret.txt",
            "inside/page.txt",
            "a/missing/page.txt",
            "a/b/page.txt/x",
        ] {
            assert!(open_stepwise(path).is_err(), "{path}");
        }
    }
}
