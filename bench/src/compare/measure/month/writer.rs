//! Thread that adds and renews certificates by the clock.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow};
use rcgen::KeyPair;
use rustix::process::nice;

use super::plan::Plan;
use super::way::Way;
use crate::fixtures::{Authority, Folder, host_name};

/// Running thread. Dropping it asks the thread to end.
pub(super) struct Writer {
    progress: Arc<Progress>,
    /// Thread that writes; none once it was waited for.
    thread: Option<JoinHandle<Result<()>>>,
}

/// Progress of the thread. Each atomic stands alone: no ordering is needed.
#[derive(Debug, Default)]
struct Progress {
    served: AtomicUsize,
    /// Reloads that have ended and their CPU time: one divides the other.
    reloads: Mutex<(u64, Duration)>,
    is_over: AtomicBool,
}

impl Progress {
    fn reloads(&self) -> MutexGuard<'_, (u64, Duration)> {
        self.reloads.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    /// Starts the month now. `fixture` holds the authority.
    pub(super) fn start(plan: Plan, begun: Instant, fixture: PathBuf, way: Way) -> Result<Self> {
        let progress = Arc::new(Progress::default());
        progress.served.store(plan.from, Ordering::Relaxed);
        let own = progress.clone();
        let thread = thread::Builder::new().name("certificates".into());
        let thread = thread.spawn(move || {
            // The client shares this core, and its times count. Imports inherit this.
            nice(NICENESS)?;
            write(plan, begun, &fixture, way, &own)
        });
        Ok(Self {
            progress,
            thread: Some(thread.context("cannot start a thread")?),
        })
    }

    /// Returns the number of hosts that the server serves.
    pub(super) fn served(&self) -> usize {
        self.progress.served.load(Ordering::Relaxed)
    }

    /// Returns the reloads that have ended, and the CPU time of these.
    pub(super) fn reloads(&self) -> (u64, Duration) {
        *self.progress.reloads()
    }

    /// Returns whether the thread has ended, which it does early if it fails.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Ends the thread, and returns its error if it failed.
    pub(super) fn end(mut self) -> Result<()> {
        self.progress.is_over.store(true, Ordering::Relaxed);
        let thread = self.thread.take().context("it runs")?;
        let joined = thread.join();
        joined.map_err(|_| anyhow!("the thread that writes certificates has panicked"))?
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.progress.is_over.store(true, Ordering::Relaxed);
    }
}

/// Writes what is due each quarter of an hour, or later if the server takes longer.
fn write(
    plan: Plan,
    begun: Instant,
    fixture: &Path,
    mut way: Way,
    progress: &Progress,
) -> Result<()> {
    let authority = Authority::load_or_create(Folder(fixture))?;
    let is_over = || progress.is_over.load(Ordering::Relaxed);
    let mut written = plan.due(Duration::ZERO);
    while !is_over() {
        let due = plan.due(begun.elapsed());
        for number in plan.between(written, due) {
            if is_over() {
                return Ok(());
            }
            write_pair(&authority, way.folder(), &host_name(number))?;
        }
        if due != written {
            way.publish(due.hosts, is_over)?;
            written = due;
            progress.served.store(due.hosts, Ordering::Relaxed);
            *progress.reloads() = way.reloads();
        }
        thread::sleep(plan.until_quarter(begun.elapsed()));
    }
    Ok(())
}

fn write_pair(authority: &Authority, folder: Folder<'_>, name: &str) -> Result<()> {
    let key = KeyPair::generate()?;
    replace(&folder.chain(name), &authority.chain(name, &key)?)?;
    replace(&folder.key(name), &key.serialize_pem())
}

/// Writes a file anew. Written over, the certificates of other rows would change with it, which
/// it may be a link to.
fn replace(file: &Path, text: &str) -> Result<()> {
    let begun = file.with_extension("begun");
    fs::write(&begun, text).with_context(|| format!("cannot write {}", begun.display()))?;
    Ok(fs::rename(begun, file)?)
}

/// Least share of the core.
const NICENESS: i32 = 19;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_a_replaced_file_keeps_its_text() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (folder.path().join("a.crt"), folder.path().join("b.crt"));
        fs::write(&one, "old").unwrap();
        fs::hard_link(&one, &other).unwrap();
        replace(&other, "new").unwrap();
        assert_eq!(fs::read_to_string(one).unwrap(), "old");
        assert_eq!(fs::read_to_string(other).unwrap(), "new");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }
}
