#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;
use crate::sqlite::{Mode, Options};

/// A store, and the watch under test.
struct Watched {
    folder: tempfile::TempDir,
    file: Arc<StoreFile>,
    watch: Watch,
}

impl Watched {
    fn with(events: impl FnOnce(&Path) -> Option<FileEvents>, slow: Duration) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("hosts.db");
        let (file, _) = StoreFile::open(&path, Mode::Create, &Options::default()).unwrap();
        let inline = Arc::new(InlineReaders::new(&file));
        let events = events(&path);
        let watch = Watch::start_with(Arc::clone(&file), inline, events, slow).unwrap();
        Self {
            folder,
            file,
            watch,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("hosts.db")
    }

    /// Commits twice as another process, and waits until each is announced. The first
    /// look of a watch announces something in any case.
    async fn commits(&self) {
        self.commit().await;
        self.commit().await;
    }

    async fn commit(&self) {
        let changed = self.watch.changed();
        commit(&self.path());
        // Real time, as the watch runs on a thread; far more than it needs.
        let bound = Duration::from_secs(20);
        tokio::time::timeout(bound, changed).await.expect("in time");
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.file.close();
    }
}

/// Longer than a test waits: only an event announces a change.
const NEVER: Duration = Duration::from_secs(1000);

#[tokio::test]
async fn events_announce_commits_and_other_files() {
    let watched = Watched::with(|path| FileEvents::of(path).ok(), NEVER);
    watched.commits().await;
    let changed = watched.watch.changed();
    let copy = watched.folder.path().join("copy.db");
    let text = copy.to_str().unwrap();
    let other = Connection::open(watched.path()).unwrap();
    other.execute("VACUUM INTO ?1", [text]).unwrap();
    std::fs::rename(&copy, watched.path()).unwrap();
    let bound = Duration::from_secs(20);
    tokio::time::timeout(bound, changed).await.expect("in time");
}

#[tokio::test]
async fn without_events_commits_are_looked_for() {
    let watched = Watched::with(|_| None, NEVER);
    watched.commits().await;
}

/// A file system that tells nothing: the slow look finds the first change, and all later
/// ones are looked for.
#[tokio::test]
async fn a_change_without_an_event_ends_the_trust_in_events() {
    let elsewhere = tempfile::tempdir().unwrap();
    let silent = FileEvents::of(&elsewhere.path().join("hosts.db")).ok();
    let watched = Watched::with(|_| silent, Duration::from_millis(200));
    watched.commits().await;
}

#[tokio::test]
async fn a_folder_that_is_moved_is_watched_anew() {
    let gone = tempfile::tempdir().unwrap();
    let events = FileEvents::of(&gone.path().join("hosts.db")).ok();
    let watched = Watched::with(|_| events, NEVER);
    drop(gone);
    watched.commits().await;
}

/// A watcher of the store at `path` that looked once, without its thread.
fn watcher(path: &Path, events: Option<FileEvents>) -> Watcher {
    let (file, _) = StoreFile::open(path, Mode::Create, &Options::default()).unwrap();
    let inline = Arc::new(InlineReaders::new(&file));
    let mut watcher = Watcher::new(file, inline, events, NEVER);
    watcher.look();
    watcher
}

/// Commits as another process.
fn commit(path: &Path) {
    let other = Connection::open(path).unwrap();
    other
        .execute("UPDATE meta SET token = token + 1", ())
        .unwrap();
}

#[test]
fn an_event_behind_the_reading_keeps_the_trust() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.db");
    let mut watcher = watcher(&path, FileEvents::of(&path).ok());
    while watcher.events.as_ref().unwrap().read() == Happened::Event {}
    assert!(watcher.is_quiet());
    commit(&path);
    let seen = watcher.seen;
    watcher.look();
    assert_ne!(watcher.seen, seen);
    assert!(watcher.events.is_some());
    watcher.file.close();
}

/// A sync that takes longer than [`SETTLING`].
#[test]
fn an_event_long_before_its_commit_keeps_the_trust() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.db");
    let mut watcher = watcher(&path, FileEvents::of(&path).ok());
    commit(&path);
    watcher.read_events();
    watcher.busy_until = Instant::now();
    watcher.look();
    assert!(watcher.events.is_some());
    watcher.file.close();
}

#[test]
fn a_commit_without_an_event_ends_the_trust() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let path = folder.path().join("hosts.db");
    let silent = FileEvents::of(&elsewhere.path().join("hosts.db")).ok();
    let mut watcher = watcher(&path, silent);
    commit(&path);
    watcher.look();
    assert!(watcher.events.is_none());
    watcher.file.close();
}

/// Neither folder changes when a link above them is pointed elsewhere: no event comes.
#[test]
fn the_folder_behind_another_link_is_watched() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, current, new] =
        ["one", "two", "current", "new"].map(|name| folder.path().join(name));
    let path = current.join("data").join("hosts.db");
    for release in [&one, &two] {
        std::fs::create_dir_all(release.join("data")).unwrap();
    }
    std::os::unix::fs::symlink(&one, &current).unwrap();
    let mut watcher = watcher(&path, FileEvents::of(&path).ok());
    let copy = two.join("data").join("hosts.db");
    let other = Connection::open(&path).unwrap();
    let text = copy.to_str().unwrap();
    other.execute("VACUUM INTO ?1", [text]).unwrap();
    drop(other);
    while watcher.events.as_ref().unwrap().read() == Happened::Event {}
    std::os::unix::fs::symlink(&two, &new).unwrap();
    std::fs::rename(&new, &current).unwrap();
    watcher.look();
    let events = watcher.events.as_ref().unwrap();
    while events.read() == Happened::Event {}
    commit(&copy);
    assert_eq!(events.read(), Happened::Event);
    watcher.file.close();
}

#[test]
fn a_quiet_watch_ends_at_once() {
    let (stop, stopped) = UnixStream::pair().unwrap();
    assert_eq!(wait(&stopped, None, Duration::ZERO), Woken::Due);
    drop(stop);
    assert_eq!(wait(&stopped, None, NEVER), Woken::Stopped);
}
