//! Follows the sources of an import: takes what another tool renews, as its files change.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use sekisho_certs::{Clock, Lease, Origin, Sealer, printable};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::time::sleep;

use super::Import;
use super::prune::SeenHosts;
use super::report::Report;
use super::source::{Half, Pair, Pairs, Refusal};
use super::sources::LayoutAt;
use crate::terminal::failure::{self, Ended, Interrupted, Result};

/// Imports sources of these names and layouts, and again after each change, until a signal ends it.
pub(super) fn run(
    import: &Import<'_>,
    sealer: &Sealer,
    origins: &[Origin],
    mut layouts: Vec<LayoutAt>,
) -> Result<Ended> {
    let (runtime, args) = (import.runtime, import.args);
    let names = origins.iter().map(|origin| &*origin.source);
    let names = names.collect::<Vec<_>>().join(" ");
    let (name, clock) = (format!("import-watch/{names}"), Clock::System);
    let time = LEASE.max(args.every.saturating_mul(2));
    let Some(lease) = runtime.block_on(Lease::take(sealer, name, time, &clock))? else {
        bail!("another import watches {names}");
    };
    let mut events = runtime.block_on(async { Events::begin(&args.folders()) })?;
    let (mut memory, mut told) = (WatchMemory::default(), String::new());
    let ended = loop {
        let round = match runtime.block_on(lease.prolong()) {
            Ok(false) => bail!("another import has begun to watch {names}"),
            Ok(true) => args.pairs(&mut layouts),
            Err(error) => Err(error.into()),
        };
        let round = round.and_then(|opened| memory.round(import, opened, &mut events));
        let pause = match round {
            Ok(pause) => {
                told.clear();
                pause
            }
            Err(error) if error.is::<Interrupted>() => break Err(error),
            Err(error) => {
                // What was not stored is tried again, and a source may be another one then.
                memory.states.clear();
                events.watched.clear();
                let text = error.to_string();
                if text != told {
                    failure::warn(&error, "the sources are still watched");
                }
                told = text;
                RETRY
            }
        };
        if !runtime.block_on(events.wait(pause))? {
            break Ok(Ended::Done);
        }
    };
    runtime.block_on(lease.release())?;
    ended
}

/// Pairs that were tried.
#[derive(Default)]
struct WatchMemory {
    /// State in which each pair was tried, by the place of its chain.
    states: HashMap<u64, u64>,
    /// Places of the present round.
    visited: HashSet<u64>,
    /// Refusals since then, which a tool that is just writing may cause. Each is told later.
    held: Vec<(Instant, Refusal)>,
    hasher: RandomState,
}

impl WatchMemory {
    /// Imports the pairs that changed. Returns the time until the next round.
    fn round(
        &mut self,
        import: &Import<'_>,
        (pairs, origins): (Pairs, Vec<Origin>),
        events: &mut Events,
    ) -> Result<Duration> {
        let (args, is_whole) = (import.args, self.states.is_empty());
        let mut report = Report::new(|| None);
        report.held = Some(Vec::new());
        report.seen = (args.prune && is_whole).then(SeenHosts::default);
        self.visited.clear();
        let rules = args.rules(import.config, Clock::System.now())?;
        let changed = pairs.filter(|pair| self.is_changed(pair, events));
        let (mut report, removed) = import.round(changed, &origins, report, rules)?;
        self.hold(report.held.take().unwrap_or_default());
        if let Some(line) = report.end_if_changed()? {
            println!("{line}");
        }
        if let Err(error) = removed {
            failure::warn(&error, "the sources are still watched");
        }
        let before = self.states.len();
        self.states.retain(|place, _| self.visited.contains(place));
        if args.prune && self.states.len() < before {
            // What is gone is told by a whole round alone.
            self.states.clear();
            return Ok(Duration::ZERO);
        }
        Ok(args.every)
    }

    /// Tells whether a pair is not as it was when it was tried, and watches its folders then.
    fn is_changed(&mut self, pair: &Result<Pair, Refusal>, events: &mut Events) -> bool {
        let (place, state) = match pair {
            Ok(pair) => (pair.chain.place(), self.state(pair)),
            Err(refusal) => (&*refusal.place, self.hasher.hash_one(&refusal.reason)),
        };
        let place = self.hasher.hash_one(place);
        self.visited.insert(place);
        if self.states.insert(place, state) == Some(state) {
            return false;
        }
        for half in pair.iter().flat_map(halves) {
            self.held.retain(|(_, told)| told.place != half.place());
            if let Half::File(path) | Half::Beside(path) = half {
                events.watch(path);
            }
        }
        true
    }

    /// Computes a hash of what a pair's files, or its bytes, are.
    fn state(&self, pair: &Pair) -> u64 {
        let of = |half: &Half| match half {
            Half::File(path) | Half::Beside(path) => fs::metadata(path).map_or(0, |file| {
                // Tools may set the time of a file's content, and nobody that of its change.
                let changed = (file.ctime(), file.ctime_nsec());
                let file = (file.dev(), file.ino(), file.size(), changed);
                self.hasher.hash_one(file)
            }),
            Half::Bytes(_, bytes) => self.hasher.hash_one(&bytes[..]),
        };
        let states: Vec<_> = halves(pair).map(of).collect();
        self.hasher.hash_one(states)
    }

    /// Holds refusals, and tells those that have been held long enough.
    fn hold(&mut self, refusals: Vec<Refusal>) {
        let now = Instant::now();
        self.held.extend(refusals.into_iter().map(|one| (now, one)));
        let is_due = |one: &mut (Instant, Refusal)| one.0.elapsed() >= PATIENCE;
        for (_, refusal) in self.held.extract_if(.., is_due) {
            let (place, reason) = (refusal.place.display(), &refusal.reason);
            eprintln!("refused: {}", printable(&format!("{place}: {reason}")));
        }
    }
}

fn halves(pair: &Pair) -> impl Iterator<Item = &Half> {
    [Some(&pair.chain), pair.key.as_ref()].into_iter().flatten()
}

/// Changes in the folders of pairs, as the kernel reports them: inotify(7).
struct Events {
    queue: AsyncFd<OwnedFd>,
    /// Folders of the sources.
    sources: Vec<PathBuf>,
    /// Folders that are watched.
    watched: HashSet<PathBuf>,
    /// True once it was told that a folder can't be watched.
    is_told: bool,
    interrupt: Signal,
    terminate: Signal,
}

impl Events {
    /// Begins to watch folders. Needs a runtime.
    fn begin(sources: &[PathBuf]) -> Result<Self> {
        let queue = inotify::init(CreateFlags::NONBLOCK | CreateFlags::CLOEXEC)?;
        #[expect(
            deprecated,
            reason = "the queue owns its descriptor, and the new name is unsafe"
        )]
        let queue = AsyncFd::with_interest(queue, Interest::READABLE)?;
        let mut events = Self {
            queue,
            sources: sources.to_vec(),
            watched: HashSet::new(),
            is_told: false,
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
        };
        sources.iter().for_each(|one| events.watch_folder(one));
        Ok(events)
    }

    /// Watches the folder of a file, that of the file to which a link leads, and those above
    /// them in the sources, in which further ones may appear.
    fn watch(&mut self, file: &Path) {
        let real = fs::canonicalize(file).unwrap_or_default();
        for file in [file, &real] {
            for (above, folder) in file.ancestors().skip(1).enumerate() {
                let in_source = self.sources.iter().any(|one| folder.starts_with(one));
                if self.watched.contains(folder) || above > 0 && !in_source {
                    break;
                }
                self.watch_folder(folder);
            }
        }
    }

    fn watch_folder(&mut self, folder: &Path) {
        let watched = inotify::add_watch(self.queue.get_ref(), folder, wanted());
        self.watched.insert(folder.to_owned());
        if let Err(error) = watched
            && !std::mem::replace(&mut self.is_told, true)
        {
            let text = format!("{} can't be watched: {error}", folder.display());
            eprintln!("note: {}; changes are found with --every", printable(&text));
        }
    }

    /// Waits for a change, or for a time. Returns false if a signal ends the command.
    async fn wait(&mut self, most: Duration) -> io::Result<bool> {
        let has_ended = tokio::select! {
            _ = self.interrupt.recv() => true,
            _ = self.terminate.recv() => true,
            () = sleep(most) => false,
            ready = self.queue.readable() => {
                ready?.clear_ready();
                false
            }
        };
        if !has_ended {
            // Tools write several files.
            sleep(SETTLE).await;
            self.drain();
        }
        Ok(!has_ended)
    }

    /// Reads all events: any means that the sources are to be looked at.
    fn drain(&mut self) {
        let mut buffer = [MaybeUninit::uninit(); BUFFER];
        let mut reader = Reader::new(self.queue.get_ref(), &mut buffer);
        for _ in 0..MAX_EVENTS {
            match reader.next() {
                // A folder may come back under its name.
                Ok(event) if event.events().intersects(lost()) => self.watched.clear(),
                Ok(_) | Err(Errno::INTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// All events but reads, and writes to files that are still open.
fn wanted() -> WatchFlags {
    let reads = WatchFlags::ACCESS | WatchFlags::OPEN | WatchFlags::CLOSE_NOWRITE;
    WatchFlags::ALL_EVENTS - reads - WatchFlags::MODIFY
}

/// Events after which a folder is another one or no longer watched, or events are missing.
fn lost() -> ReadFlags {
    ReadFlags::MOVE_SELF | ReadFlags::IGNORED | ReadFlags::UNMOUNT | ReadFlags::QUEUE_OVERFLOW
}

/// Duration of the lease, which an import of a million pairs does not pass.
const LEASE: Duration = Duration::from_mins(10);
/// Pause after an outage.
const RETRY: Duration = Duration::from_secs(5);
/// Time after an event in which a tool writes the rest, and least time from one round to the
/// next.
const SETTLE: Duration = Duration::from_millis(500);
/// Age of a refusal that is told: half of a pair may be just being written.
const PATIENCE: Duration = Duration::from_mins(1);
/// Bytes of events that are read at once; one takes at most 272.
const BUFFER: usize = 4096;
/// Events that are read in one go: others may write without end.
const MAX_EVENTS: usize = 65_536;
