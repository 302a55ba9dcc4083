//! Mounts of this machine: on which device a folder lies, told without asking the disk,
//! which may hang.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::os::unix::ffi::OsStringExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use arc_swap::ArcSwap;
use foldhash::fast::RandomState;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Mount points with what is kept for each device, a `D`.
#[derive(Debug)]
pub(super) struct Mounts<D> {
    known: ArcSwap<Known<D>>,
    /// The kernel's list; absent where `/proc` is not mounted.
    list: Option<Mutex<List>>,
}

#[derive(Debug)]
struct Known<D> {
    /// Devices by number, `8:1`.
    devices: HashMap<Box<str>, Arc<D>, RandomState>,
    /// Devices by mount point, as the kernel lists them.
    points: HashMap<PathBuf, Arc<D>, RandomState>,
}

/// List of mounts. The kernel tells when it has changed.
#[derive(Debug)]
struct List {
    /// Open for ever: there may be no descriptor for it later.
    file: File,
    is_stale: bool,
}

impl<D: Default> Mounts<D> {
    /// Reads the mounts.
    pub(super) fn new() -> Self {
        let list = File::open(LIST).ok();
        let mounts = Self {
            known: ArcSwap::from_pointee(Known::parse(b"", &HashMap::default())),
            list: list.map(|file| {
                let is_stale = true;
                Mutex::new(List { file, is_stale })
            }),
        };
        mounts.renew();
        mounts
    }

    /// Returns what is kept for the device of a folder by its path, as if no link were in
    /// it; none if the device is not known.
    pub(super) fn device(&self, folder: &Path) -> Option<Arc<D>> {
        let known = self.known.load();
        let mut above = folder.ancestors();
        let device = above.find_map(|point| known.points.get(point));
        device.cloned()
    }

    /// Reads the mounts again if they have changed. A list that can't be read is read by the
    /// next call.
    pub(super) fn renew(&self) {
        let Some(list) = &self.list else { return };
        // A change that is told meanwhile is told to the next call.
        let Ok(mut list) = list.try_lock() else {
            return;
        };
        let mut change = [PollFd::new(&list.file, PollFlags::PRI)];
        let is_changed = poll(&mut change, Some(&Timespec::default())).is_ok_and(|told| told > 0);
        list.is_stale |= is_changed;
        if list.is_stale
            && let Ok(text) = list.read()
        {
            let known = Known::parse(&text, &self.known.load().devices);
            self.known.store(Arc::new(known));
            list.is_stale = false;
        }
    }
}

impl List {
    fn read(&mut self) -> io::Result<Vec<u8>> {
        self.file.rewind()?;
        let mut text = Vec::new();
        self.file.read_to_end(&mut text)?;
        Ok(text)
    }
}

impl<D: Default> Known<D> {
    /// Reads lines of proc_pid_mountinfo(5). The last one of a mount point hides the others.
    /// A device of `before` keeps its `D`.
    fn parse(list: &[u8], before: &HashMap<Box<str>, Arc<D>, RandomState>) -> Self {
        let (mut devices, mut points) = (HashMap::default(), HashMap::default());
        for line in list.split(|byte| *byte == b'\n') {
            let mut fields = line.split(|byte| *byte == b' ');
            let number = fields.nth(2).and_then(|it| std::str::from_utf8(it).ok());
            let (Some(number), Some(point)) = (number, fields.nth(1)) else {
                continue;
            };
            let known = || before.get(number).cloned().unwrap_or_default();
            let device: &Arc<D> = devices.entry(number.into()).or_insert_with(known);
            let point = OsString::from_vec(unescape(point));
            points.insert(point.into(), Arc::clone(device));
        }
        Self { devices, points }
    }
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
impl<D: Default> Mounts<D> {
    /// Mounts of such a list.
    pub(super) fn of(list: &str) -> Self {
        let known = Known::parse(list.as_bytes(), &HashMap::default());
        Self {
            known: ArcSwap::from_pointee(known),
            list: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// Returns the number of a folder's device.
    fn number(mounts: &Mounts<u8>, folder: &str) -> String {
        let known = mounts.known.load();
        let device = mounts.device(Path::new(folder));
        let is_it = |it: &Arc<u8>| {
            device
                .as_ref()
                .is_some_and(|device| Arc::ptr_eq(device, it))
        };
        let mut devices = known.devices.iter();
        let number = devices.find_map(|(number, it)| is_it(it).then(|| number.to_string()));
        number.unwrap_or_default()
    }

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
            assert_eq!(number(&mounts, folder), device, "{folder}");
        }
    }

    #[test]
    fn the_root_of_this_machine_has_a_device() {
        let mounts = Mounts::<u8>::new();
        assert!(number(&mounts, "/").contains(':'));
    }

    #[test]
    fn a_list_is_read_again_and_keeps_its_devices() {
        let path = tempfile::NamedTempFile::new().unwrap();
        let root = "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n";
        fs::write(&path, root).unwrap();
        let list = List {
            file: File::open(&path).unwrap(),
            is_stale: true,
        };
        let mounts = Mounts {
            list: Some(Mutex::new(list)),
            ..Mounts::<u8>::of("")
        };
        mounts.renew();
        let before = mounts.device(Path::new("/")).unwrap();
        fs::write(
            &path,
            format!("{root}2 1 0:41 / /srv rw - nfs4 nas:/a rw\n"),
        )
        .unwrap();
        mounts.list.as_ref().unwrap().lock().unwrap().is_stale = true;
        mounts.renew();
        assert_eq!(number(&mounts, "/srv/a"), "0:41");
        assert!(Arc::ptr_eq(
            &before,
            &mounts.device(Path::new("/")).unwrap()
        ));
    }
}
