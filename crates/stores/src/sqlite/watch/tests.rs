#![allow(clippy::unwrap_used)]

use std::os::unix::fs::symlink;

use rusqlite::Connection;

use super::*;
use crate::sqlite::{Mode, Options};

/// Longer than a test waits: only what was written makes a look due.
const NEVER: Duration = Duration::from_secs(1000);

/// Makes a store at `path`.
fn store(path: &Path) -> Arc<StoreFile> {
    let (file, _) = StoreFile::open(path, Mode::Create, &Options::default()).unwrap();
    file
}

/// Commits as another process.
fn commit(path: &Path) {
    let other = Connection::open(path).unwrap();
    other
        .execute("UPDATE meta SET token = token + 1", ())
        .unwrap();
}

/// Copies a store to a path where nothing lies.
fn copy(path: &Path, to: &Path) {
    let other = Connection::open(path).unwrap();
    other
        .execute("VACUUM INTO ?1", [to.to_str().unwrap()])
        .unwrap();
}

/// Makes a watcher of the store at `path` that has looked, without its thread.
fn watcher(path: &Path) -> Watcher {
    let file = store(path);
    let inline = Arc::new(InlineReaders::new(&file));
    let mut watcher = Watcher::new(file, inline, Arc::default(), NEVER);
    look(&mut watcher);
    watcher
}

/// Looks, and lets the time pass in which the watch looks anyway. Returns whether a
/// change was announced.
fn look(watcher: &mut Watcher) -> bool {
    let mut changes = watcher.changed.subscribe();
    changes.mark_unchanged();
    // Opening a connection may write beside the store.
    for _ in 0..2 {
        watcher.look();
        let _ = watcher.is_due();
    }
    watcher.busy_until = Instant::now();
    changes.has_changed().unwrap()
}

#[tokio::test]
async fn commits_and_other_files_are_announced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.db");
    let file = store(&path);
    let inline = Arc::new(InlineReaders::new(&file));
    let watch = Watch::start_with(Arc::clone(&file), inline, NEVER).unwrap();
    let new = folder.path().join("new.db");
    let replace = |path: &Path| {
        copy(path, &new);
        fs::rename(&new, path).unwrap();
    };
    // The first look of a watch announces something in any case.
    let changes: [&dyn Fn(&Path); 4] = [&commit, &commit, &replace, &commit];
    for change in changes {
        let changed = watch.changed();
        change(&path);
        // Real time, as the watch runs on a thread; far more than it needs.
        let bound = Duration::from_secs(20);
        tokio::time::timeout(bound, changed).await.expect("in time");
    }
    file.close();
}

#[test]
fn only_a_write_makes_a_look_due() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.db");
    let mut watcher = watcher(&path);
    assert!(!watcher.is_due());
    commit(&path);
    assert!(watcher.is_due());
    assert!(watcher.is_due(), "a commit may become visible later");
    assert!(look(&mut watcher));
    assert!(!watcher.is_due());
    assert!(!look(&mut watcher));
    watcher.slow = Duration::ZERO;
    assert!(watcher.is_due(), "once a second");
    watcher.file.close();
}

/// Where no time of a write is told, the slow look finds the commit.
#[test]
fn a_commit_that_nothing_tells_of_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hosts.db");
    let mut watcher = watcher(&path);
    commit(&path);
    watcher.written = Written::of(&watcher.file.path, &watcher.log);
    assert!(!watcher.is_due());
    assert!(look(&mut watcher));
    watcher.file.close();
}

#[test]
fn links_are_followed_and_may_lead_elsewhere() {
    let folder = tempfile::tempdir().unwrap();
    let [one, two, current, new] =
        ["one", "two", "current", "new"].map(|name| folder.path().join(name));
    let path = current.join("hosts.db");
    for release in [&one, &two] {
        fs::create_dir(release).unwrap();
    }
    symlink(&one, &current).unwrap();
    let mut watcher = watcher(&path);
    commit(&one.join("hosts.db"));
    assert!(watcher.is_due() && look(&mut watcher));
    copy(&path, &two.join("hosts.db"));
    look(&mut watcher);
    symlink(&two, &new).unwrap();
    fs::rename(&new, &current).unwrap();
    assert!(watcher.is_due() && look(&mut watcher));
    assert!(!watcher.is_due());
    commit(&two.join("hosts.db"));
    assert!(watcher.is_due() && look(&mut watcher));
    watcher.file.close();
}
