//! Mounts of this machine: on which device a folder lies, told without asking the disk,
//! which may hang.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Devices by mount point, as the kernel lists them.
#[derive(Debug)]
pub(super) struct Mounts {
    points: ArcSwap<HashMap<PathBuf, Device>>,
    /// The list; it tells when it has changed. None where `/proc` is not mounted.
    list: Option<File>,
    renewing: Mutex<()>,
}

/// Number of a device, `8:1`. Empty if it is not known.
pub(super) type Device = Arc<str>;

impl Mounts {
    /// Reads the mounts.
    pub(super) fn new() -> Self {
        // Opened first: a change meanwhile is told.
        let list = File::open(LIST).ok();
        Self {
            points: ArcSwap::from_pointee(read()),
            list,
            renewing: Mutex::default(),
        }
    }

    /// Returns the device of a folder by its path, as if no link were in it.
    pub(super) fn device(&self, folder: &Path) -> Device {
        let points = self.points.load();
        let mut above = folder.ancestors();
        let device = above.find_map(|point| points.get(point));
        device.cloned().unwrap_or_default()
    }

    /// Reads the mounts again if they have changed.
    pub(super) fn renew(&self) {
        let Some(list) = &self.list else { return };
        // A change that is told meanwhile is told to the next read.
        let Ok(_renewing) = self.renewing.try_lock() else {
            return;
        };
        let mut list = [PollFd::new(list, PollFlags::PRI)];
        if poll(&mut list, Some(&Timespec::default())).is_ok_and(|changed| changed > 0) {
            self.points.store(Arc::new(read()));
        }
    }
}

fn read() -> HashMap<PathBuf, Device> {
    parse(&fs::read(LIST).unwrap_or_default())
}

/// Reads lines of proc_pid_mountinfo(5). The last one of a mount point hides the others.
fn parse(list: &[u8]) -> HashMap<PathBuf, Device> {
    let lines = list.split(|byte| *byte == b'\n');
    let points = lines.filter_map(|line| {
        let mut fields = line.split(|byte| *byte == b' ');
        let device = std::str::from_utf8(fields.nth(2)?).ok()?;
        let point = unescape(fields.nth(1)?);
        Some((OsString::from_vec(point).into(), device.into()))
    });
    points.collect()
}

/// Replaces `\040` and the like.
fn unescape(field: &[u8]) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::with_capacity(field.len()), field);
    while let Some((&first, behind)) = rest.split_first() {
        let octal = behind.get(..3).filter(|_| first == b'\\');
        let code = octal.and_then(|octal| std::str::from_utf8(octal).ok());
        let byte = code.and_then(|code| u8::from_str_radix(code, 8).ok());
        bytes.push(byte.unwrap_or(first));
        rest = if byte.is_some() { &behind[3..] } else { behind };
    }
    bytes
}

const LIST: &str = "/proc/self/mountinfo";

#[cfg(test)]
impl Mounts {
    /// Mounts of such a list.
    pub(super) fn of(list: &str) -> Self {
        Self {
            points: ArcSwap::from_pointee(parse(list.as_bytes())),
            list: None,
            renewing: Mutex::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_mount_above_a_folder_has_it() {
        let mounts = Mounts::of(
            "21 1 8:1 / / rw shared:1 - ext4 /dev/sda1 rw\n\
             35 21 0:41 / /srv/nfs rw - nfs4 nas:/a rw\n\
             36 35 0:42 /sub /srv/nfs/with\\040space\\134 rw - nfs4 nas:/b rw\n\
             37 21 0:43 / /srv/twice rw - tmpfs tmpfs rw\n\
             38 37 0:44 / /srv/twice rw - tmpfs tmpfs rw\n\
             39 21 broken\n",
        );
        for (folder, device) in [
            ("/", "8:1"),
            ("/srv/nfs2/a", "8:1"),
            ("/srv/nfs", "0:41"),
            ("/srv/nfs/a/b", "0:41"),
            ("/srv/nfs/with space\\/a", "0:42"),
            ("/srv/twice/a", "0:44"),
            ("relative", ""),
        ] {
            assert_eq!(&*mounts.device(Path::new(folder)), device, "{folder}");
        }
    }

    #[test]
    fn the_root_of_this_machine_has_a_device() {
        let mounts = Mounts::new();
        assert!(mounts.device(Path::new("/")).contains(':'));
        mounts.renew();
        assert!(mounts.device(Path::new("/proc")).contains(':'));
    }
}
