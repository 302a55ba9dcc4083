#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use rusqlite::Connection;

use super::*;
use crate::sqlite::{Mode, Options};

/// A store, and a watch of it with these events.
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
        let other = Connection::open(self.path()).unwrap();
        other
            .execute("UPDATE meta SET token = token + 1", ())
            .unwrap();
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
async fn a_folder_that_is_moved_ends_the_trust_in_events() {
    let gone = tempfile::tempdir().unwrap();
    let events = FileEvents::of(&gone.path().join("hosts.db")).ok();
    let watched = Watched::with(|_| events, NEVER);
    drop(gone);
    watched.commits().await;
}

#[test]
fn a_quiet_watch_ends_at_once() {
    let (stop, stopped) = UnixStream::pair().unwrap();
    assert!(!is_stopped(&stopped, None, Duration::ZERO));
    drop(stop);
    assert!(is_stopped(&stopped, None, NEVER));
}
