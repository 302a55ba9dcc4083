//! Writes to the store's files, as the kernel reports them: inotify(7).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;

use crate::own_file::folder;

/// Events of the folder in which the store lies. A link to the store is followed: events
/// of both folders count.
#[derive(Debug)]
pub(super) struct FileEvents {
    /// Readable while events wait.
    pub(super) fd: OwnedFd,
    /// Names that the store has in its folders.
    names: BTreeSet<OsString>,
}

/// Result of reading the events.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Happened {
    /// No event of the store's files.
    Nothing,
    /// The store, or a file that SQLite keeps beside it, was written or replaced.
    Event,
    /// Events are missing: the folder was moved or removed, or too many came at once.
    Lost,
}

impl FileEvents {
    /// Begins to watch. The store need not be there.
    ///
    /// # Errors
    /// If the system has no inotify, or no more room for it.
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let fd = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        let mut names = BTreeSet::new();
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        for path in [path, &target] {
            inotify::add_watch(&fd, folder(path), wanted())?;
            names.extend(path.file_name().map(OsString::from));
        }
        Ok(Self { fd, names })
    }

    /// Reads what has happened, without waiting.
    pub(super) fn read(&self) -> Happened {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(&self.fd, &mut buffer);
        let mut happened = Happened::Nothing;
        let mut read = 0;
        // Events that the reader holds already would be lost with it.
        while read < MAX_EVENTS || !reader.is_buffer_empty() {
            read += 1;
            match reader.next() {
                Ok(event) if event.events().intersects(lost()) => return Happened::Lost,
                Ok(event) => {
                    let name = event.file_name().map(std::ffi::CStr::to_bytes);
                    if name.is_none_or(|name| self.is_own(name)) {
                        happened = Happened::Event;
                    }
                }
                Err(Errno::AGAIN) => return happened,
                Err(Errno::INTR) => {}
                Err(_) => return Happened::Lost,
            }
        }
        // The rest is read the next time.
        Happened::Event
    }

    /// SQLite names its files after the store: `-wal`, `-shm`.
    fn is_own(&self, name: &[u8]) -> bool {
        let mut names = self.names.iter();
        names.any(|own| match name.strip_prefix(own.as_bytes()) {
            Some(rest) => rest.is_empty() || rest[0] == b'-',
            None => false,
        })
    }
}

/// A commit writes to the write-ahead log; a restored store is moved to its place.
fn wanted() -> WatchFlags {
    WatchFlags::MODIFY
        | WatchFlags::CLOSE_WRITE
        | WatchFlags::CREATE
        | WatchFlags::DELETE
        | WatchFlags::MOVED_FROM
        | WatchFlags::MOVED_TO
        | WatchFlags::DELETE_SELF
        | WatchFlags::MOVE_SELF
}

/// Events after which the folder is another one, or none, or events are missing. An
/// overflow may have swallowed the end of the folder.
fn lost() -> ReadFlags {
    ReadFlags::DELETE_SELF
        | ReadFlags::MOVE_SELF
        | ReadFlags::IGNORED
        | ReadFlags::UNMOUNT
        | ReadFlags::QUEUE_OVERFLOW
}

/// Bytes of events that are read at once; one takes at most 272.
const BUFFER: usize = 4096;
/// Events of one call: others may write to the folder without end.
const MAX_EVENTS: usize = 1024;

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn writes_beside_the_store_count_if_they_are_its_own() {
        let folder = tempfile::tempdir().unwrap();
        let events = FileEvents::of(&folder.path().join("hosts.db")).unwrap();
        let write = |name: &str| fs::write(folder.path().join(name), "x").unwrap();
        assert_eq!(events.read(), Happened::Nothing);
        for (name, expected) in [
            ("hosts.db", Happened::Event),
            ("hosts.db-wal", Happened::Event),
            ("hosts.dbx", Happened::Nothing),
            ("access.log", Happened::Nothing),
        ] {
            write(name);
            assert_eq!(events.read(), expected, "{name}");
            assert_eq!(events.read(), Happened::Nothing, "{name}, read before");
        }
        write("new");
        fs::rename(folder.path().join("new"), folder.path().join("hosts.db")).unwrap();
        assert_eq!(events.read(), Happened::Event);
    }

    #[test]
    fn links_are_followed() {
        let (folder, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (link, store) = (folder.path().join("hosts.db"), other.path().join("real.db"));
        fs::write(&store, "x").unwrap();
        std::os::unix::fs::symlink(&store, &link).unwrap();
        let events = FileEvents::of(&link).unwrap();
        fs::write(other.path().join("real.db-wal"), "x").unwrap();
        assert_eq!(events.read(), Happened::Event);
        fs::remove_file(&link).unwrap();
        assert_eq!(events.read(), Happened::Event);
    }

    #[test]
    fn a_folder_that_is_gone_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let events = FileEvents::of(&inner.join("hosts.db")).unwrap();
        fs::rename(&inner, folder.path().join("moved")).unwrap();
        assert_eq!(events.read(), Happened::Lost);
        assert!(FileEvents::of(&inner.join("hosts.db")).is_err());
    }
    /// Renames another file to and fro: two events each, 48 bytes long.
    fn rename(folder: &Path, times: usize) {
        let names = ["another-file-one", "another-file-two"].map(|name| folder.join(name));
        fs::write(&names[0], "x").unwrap();
        for turn in 0..times {
            fs::rename(&names[turn % 2], &names[(turn + 1) % 2]).unwrap();
        }
    }

    /// 1,024 events end within a buffer of 85, which the folder's end is in too.
    #[test]
    fn events_in_the_buffer_are_not_dropped() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        fs::create_dir(&inner).unwrap();
        let events = FileEvents::of(&inner.join("hosts.db")).unwrap();
        rename(&inner, MAX_EVENTS / 2 + 4);
        fs::rename(&inner, folder.path().join("moved")).unwrap();
        assert_eq!(events.read(), Happened::Lost);
    }

    #[test]
    fn an_overflow_of_the_queue_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let events = FileEvents::of(&folder.path().join("hosts.db")).unwrap();
        let queue = fs::read_to_string("/proc/sys/fs/inotify/max_queued_events").unwrap();
        let queue: usize = queue.trim().parse().unwrap();
        rename(folder.path(), queue / 2);
        let mut reads = (0..=queue / MAX_EVENTS).map(|_| events.read());
        assert!(reads.any(|happened| happened == Happened::Lost));
    }
}
