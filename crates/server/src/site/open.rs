//! Opens folders and files without leaving those above them.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Component, Path, PathBuf};

use rustix::fd::OwnedFd;
use rustix::fs::{Mode, OFlags, ResolveFlags, open, openat, openat2};
use rustix::io::Errno;
use rustix::process::geteuid;

/// Opens the folder `below` of `part`; None if a link below `part` leads out of it. The
/// links of `part` itself are followed.
///
/// # Errors
/// If there is no such folder, or one of its path is swapped meanwhile.
pub(crate) fn open_folder(part: &Path, below: &Path) -> io::Result<Option<OwnedFd>> {
    open_in_part(part, below, STEP, open_without_links)
}

/// Opens a socket likewise, for its place alone: `part` itself if nothing is `below`.
///
/// # Errors
/// As [`open_folder`].
pub(crate) fn open_socket(part: &Path, below: &Path) -> io::Result<Option<OwnedFd>> {
    open_in_part(part, below, PLACE, open_without_links)
}

fn open_in_part(
    part: &Path,
    below: &Path,
    flags: OFlags,
    without_links: fn(&OwnedFd, &Path, OFlags) -> Result<OwnedFd, Errno>,
) -> io::Result<Option<OwnedFd>> {
    if below.as_os_str().is_empty() {
        return Ok(Some(open(part, flags, Mode::empty())?));
    }
    let part = open(part, STEP, Mode::empty())?;
    match without_links(&part, below, flags) {
        // A link, or `..`. Without openat2, a link is no directory.
        Err(Errno::LOOP | Errno::NOTDIR | Errno::XDEV) => {}
        opened => return Ok(Some(opened?)),
    }
    // A swapped link changes no more than where this path leads: what lies there is
    // opened without links.
    let leads_to = real_path(&openat(&part, below, flags, Mode::empty())?)?;
    match leads_to.strip_prefix(real_path(&part)?) {
        Err(_) => Ok(None),
        Ok(itself) if itself.as_os_str().is_empty() => Ok(Some(part)),
        Ok(below) => Ok(Some(without_links(&part, below, flags)?)),
    }
}

/// Opens what lies below `part` by a path without links.
fn open_without_links(part: &OwnedFd, below: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    open_below(part, below, flags, ResolveFlags::NO_SYMLINKS)
}

/// Returns where an open file or folder lies, without links.
pub(crate) fn real_path(open: &impl AsFd) -> io::Result<PathBuf> {
    fs::read_link(descriptor(open))
}

/// Returns a path that leads to an open file, wherever it lies.
pub(crate) fn descriptor(open: &impl AsFd) -> PathBuf {
    format!("/proc/self/fd/{}", open.as_fd().as_raw_fd()).into()
}

/// Returns whether only root and this process's user can put something else at a path without
/// links. The sticky bit of a folder does not help: what lies there may be another user's.
/// Rights of an access control list show in the group's bits.
pub(crate) fn is_ours(path: &Path) -> bool {
    let user = geteuid().as_raw();
    path.ancestors().skip(1).all(|folder| {
        let metadata = fs::symlink_metadata(folder);
        metadata.is_ok_and(|metadata| {
            [0, user].contains(&metadata.uid()) && metadata.mode() & 0o022 == 0
        })
    })
}

/// Opens `relative` below `root` for reading.
///
/// Symbolic links are followed while they stay below the root. Absolute ones
/// never do. The open does not block on a FIFO or a device.
pub(crate) fn open_beneath(root: &OwnedFd, relative: &str) -> io::Result<File> {
    let relative = Path::new(relative);
    let opened = open_below(root, relative, READ, ResolveFlags::NO_MAGICLINKS);
    Ok(opened?.into())
}

/// Finds what `relative` names below `root`, a file that need not be readable. Follows
/// links as [`open_beneath`] does.
pub(crate) fn locate_beneath(root: &OwnedFd, relative: &Path) -> io::Result<File> {
    let located = open_below(root, relative, PLACE, ResolveFlags::NO_MAGICLINKS);
    Ok(located?.into())
}

/// Opens what lies below a folder, and follows no links that `links` excludes.
fn open_below(
    folder: &OwnedFd,
    path: &Path,
    flags: OFlags,
    links: ResolveFlags,
) -> Result<OwnedFd, Errno> {
    for _ in 0..MAX_ATTEMPTS {
        match openat2(
            folder,
            path,
            flags,
            Mode::empty(),
            ResolveFlags::BENEATH | links,
        ) {
            // A directory of the path was renamed meanwhile.
            Err(Errno::AGAIN) => {}
            // openat2 is missing before Linux 5.6, and under seccomp filters
            // that don't know it.
            Err(Errno::NOSYS | Errno::PERM) => return open_stepwise(folder, path, flags),
            opened => return opened,
        }
    }
    Err(Errno::AGAIN)
}

/// Opens what lies below a folder without openat2: one component at a time, without
/// following symbolic links.
fn open_stepwise(folder: &OwnedFd, path: &Path, flags: OFlags) -> Result<OwnedFd, Errno> {
    let mut folder = openat(folder, ".", STEP, Mode::empty())?;
    let mut components = path.components().peekable();
    while let Some(component) = components.next() {
        let Component::Normal(name) = component else {
            return Err(Errno::XDEV);
        };
        let is_last = components.peek().is_none();
        let flags = if is_last { flags } else { STEP };
        folder = openat(folder, name, flags | OFlags::NOFOLLOW, Mode::empty())?;
    }
    Ok(folder)
}

const PLACE: OFlags = OFlags::PATH.union(OFlags::CLOEXEC);
const STEP: OFlags = PLACE.union(OFlags::DIRECTORY);
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

        let root = open(&root, STEP, Mode::empty()).unwrap();
        let open_stepwise =
            |path: &str| open_stepwise(&root, Path::new(path), READ).map(File::from);
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

    #[test]
    fn a_path_is_ours_if_nobody_else_may_change_its_folders() {
        assert!(is_ours(Path::new("/usr/bin/env")));
        // All users may write /tmp.
        let folder = tempfile::tempdir().unwrap();
        assert!(!is_ours(&folder.path().join("php.sock")));
        assert!(!is_ours(Path::new("/usr/there/is/no/such/folder")));
    }

    /// Returns the name of the file in a folder that was opened, if it was.
    fn content(folder: io::Result<Option<OwnedFd>>) -> Option<String> {
        let folder = folder.ok().flatten()?;
        let mut files = fs::read_dir(descriptor(&folder)).unwrap();
        let name = files.next().unwrap().unwrap().file_name();
        Some(name.into_string().unwrap())
    }

    #[test]
    fn a_folder_is_opened_in_the_operators_part_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for (name, file) in [("srv/acme/app/v1", "v1"), ("srv/other/app", "other")] {
            fs::create_dir_all(path(name)).unwrap();
            fs::write(path(name).join(file), "").unwrap();
        }
        symlink(path("srv"), path("www")).unwrap();
        let link = |target: &str, name: &str| symlink(target, path("srv/acme").join(name)).unwrap();
        link("app/v1", "relative");
        link(path("srv/acme/app/v1").to_str().unwrap(), "absolute");
        link(path("www/acme/app").to_str().unwrap(), "through-a-link");
        link("..", "up");
        link(path("srv/other").to_str().unwrap(), "sideways");
        link("/", "system");
        link("/proc/self/cwd", "magic");
        link("itself", "itself");
        link("nowhere", "broken");
        fs::write(path("srv/acme/file"), "").unwrap();
        type Opener = fn(&OwnedFd, &Path, OFlags) -> Result<OwnedFd, Errno>;
        let openers: [Opener; 2] = [open_without_links, open_stepwise];
        for opener in openers {
            let open = |below: &str| {
                let part = path("www/acme");
                open_in_part(&part, Path::new(below), STEP, opener)
            };
            for below in [
                "app/v1",
                "relative",
                "absolute",
                "through-a-link/v1",
                "up/acme/app/v1",
                "app/../app/v1",
            ] {
                assert_eq!(content(open(below)).as_deref(), Some("v1"), "{below}");
            }
            for below in [
                "up",
                "up/other/app",
                "sideways/app",
                "system",
                "magic",
                "../other/app",
            ] {
                assert!(open(below).unwrap().is_none(), "{below}");
            }
            for below in ["missing", "itself", "broken", "file", "file/app"] {
                assert!(open(below).is_err(), "{below}");
            }
        }
    }

    #[test]
    fn a_part_is_opened_where_the_operators_link_leads() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::create_dir_all(path("disk/acme")).unwrap();
        fs::write(path("disk/acme/page"), "").unwrap();
        symlink(path("disk/acme"), path("acme")).unwrap();
        let open = |below: &str| open_folder(&path("acme"), Path::new(below));
        assert_eq!(content(open("")).as_deref(), Some("page"));
        symlink(path("disk/acme"), path("disk/acme/itself")).unwrap();
        fs::remove_file(path("disk/acme/page")).unwrap();
        assert_eq!(content(open("itself")).as_deref(), Some("itself"));
    }
}
