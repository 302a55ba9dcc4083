//! Follows the sources of an import: takes what another tool renews, as its files change.

use std::collections::{HashMap, HashSet};
use std::fs;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::mem::{MaybeUninit, replace, take};
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::bail;
use rustix::fs::inotify::{self, CreateFlags, ReadFlags, Reader, WatchFlags};
use rustix::io::Errno;
use sekisho_certs::{Clock, Lease, Origin, Sealer, printable};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::time::sleep;

use super::Import;
use super::pipeline::{Ending, ending};
use super::prune::SeenHosts;
use super::report::Report;
use super::settled::Settled;
use super::source::{Half, Pair, Pairs, Refusal};
use super::sources::LayoutAt;
use crate::terminal::failure::{self, Ended, Interrupted, Result};

/// Imports sources of these names and layouts, and again after each change, until a signal ends it.
pub(super) fn run(
    import: &Import<'_>,
    sealer: &Sealer,
    origins: &[Origin],
    layouts: &mut Vec<LayoutAt>,
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
            Ok(true) => args.pairs(layouts),
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
                // Pairs may not have been stored, and the folders may be others afterwards.
                memory.whole = None;
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

/// Memory of a watch, from round to round.
#[derive(Default)]
struct WatchMemory {
    /// Beginning of the last round that took all pairs; none if the next one has to.
    whole: Option<Instant>,
    round: u64,
    /// State in which each pair was tried, and the last round that had it, by its place and names.
    states: HashMap<u64, (u64, u64)>,
    settled: Settled,
    /// Beginning of the day whose removals count.
    day: Option<Instant>,
    changes: HashMap<Arc<str>, [u64; 3]>,
    /// True if the last removal was refused.
    is_refused: bool,
    /// Refusals by their place, which a tool that is just writing may cause; none once they were
    /// told.
    held: HashMap<u64, (Instant, Option<Refusal>)>,
    hasher: RandomState,
}

impl WatchMemory {
    /// Imports the pairs that changed, or all. Returns the time until the next round.
    fn round(
        &mut self,
        import: &Import<'_>,
        (pairs, origins): (Pairs, Vec<Origin>),
        events: &mut Events,
    ) -> Result<Duration> {
        let (args, is_whole) = (import.args, self.begin_round());
        let mut report = Report::new(|| None);
        report.held = Some(Vec::new());
        report.settled = take(&mut self.settled);
        report.changes = self.changes.clone();
        report.seen = (args.prune && is_whole).then(SeenHosts::default);
        let rules = args.rules(import.config, Clock::System.now())?;
        let changed = pairs.filter(|pair| self.is_changed(pair, events) || is_whole);
        let (mut report, removed) = import.round(changed, &origins, report, rules)?;
        self.settled = take(&mut report.settled);
        self.changes = take(&mut report.changes);
        self.hold(&mut report)?;
        if let Some(line) = report.end_if_changed()? {
            println!("{line}");
        }
        if let Err(error) = removed {
            failure::warn(&error, "what is gone stays until a later round");
            if !replace(&mut self.is_refused, true) {
                // The next one takes all pairs, too: the tool may have been just writing.
                self.whole = Instant::now().checked_sub(WHOLE.saturating_sub(args.every));
            }
        } else if is_whole {
            self.is_refused = false;
            // What earlier rounds made is like what was there before.
            self.changes.values_mut().for_each(|of| of[..2].fill(0));
        }
        let before = self.states.len();
        self.states.retain(|_, (_, round)| *round == self.round);
        if args.prune && self.states.len() < before {
            // A round of changed pairs alone does not know which hosts the lost ones had.
            self.whole = None;
            return Ok(Duration::ZERO);
        }
        Ok(args.every)
    }

    /// Begins a round. Returns whether it takes all pairs: what was refused or left out may be
    /// right by now, though no file has changed.
    fn begin_round(&mut self) -> bool {
        self.round += 1;
        let has_passed = |time: Option<Instant>, most| time.is_none_or(|at| at.elapsed() >= most);
        if has_passed(self.day, DAY) {
            self.day = Some(Instant::now());
            self.changes.values_mut().for_each(|of| of[2] = 0);
        }
        let is_whole = has_passed(self.whole, WHOLE);
        if is_whole {
            self.whole = Some(Instant::now());
            self.settled = Settled::default();
        }
        self.settled.begin_round();
        is_whole
    }

    /// Tells whether a pair is not as it was when it was tried, and watches its folders then.
    fn is_changed(&mut self, pair: &Result<Pair, Refusal>, events: &mut Events) -> bool {
        let (place, what, state) = match pair {
            Ok(pair) => (pair.chain.place(), Ok(&pair.names), self.state(pair)),
            Err(Refusal { place, reason, .. }) => (&**place, Err(reason), 0),
        };
        let key = self.hasher.hash_one((place, what)) / 2;
        // Pairs of a file may have one place and the same names; the same refusals are one.
        let is_old = |(_, round): &(u64, u64)| *round != self.round || what.is_err();
        let is_free = |key: &u64| self.states.get(key).is_none_or(is_old);
        let key = (key..).find(is_free).unwrap_or(key);
        let before = self.states.insert(key, (state, self.round));
        if before.is_some_and(|(before, _)| before == state) {
            return false;
        }
        let key = pair.iter().filter_map(|pair| pair.key.as_ref());
        for place in key.map(Half::place).chain([place]) {
            self.held.remove(&self.hasher.hash_one(place));
            events.watch(place);
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
        // A renewed pair has another chain. A key alone makes only those right that were refused.
        let is_held = |half: &Half| self.held.contains_key(&self.hasher.hash_one(half.place()));
        let key = pair.key.as_ref().filter(|_| !self.held.is_empty());
        let key = key.filter(|key| is_held(key) || is_held(&pair.chain));
        self.hasher.hash_one((of(&pair.chain), key.map(of)))
    }

    /// Holds the refusals of a round, and tells those that have been held long enough, once each.
    fn hold(&mut self, report: &mut Report) -> Result<()> {
        for refusal in report.held.take().unwrap_or_default() {
            let place = self.hasher.hash_one(&refusal.place);
            let held = self.held.entry(place);
            held.or_insert_with(|| (Instant::now(), Some(refusal)));
        }
        let held = self.held.values_mut();
        let due = held.filter(|(since, _)| since.elapsed() >= PATIENCE);
        for refusal in due.filter_map(|(_, refusal)| refusal.take()) {
            report.refuse(&refusal)?;
        }
        Ok(())
    }
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
    ending: Ending,
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
            ending: ending()?,
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
                let is_ours = above == 0 || self.sources.iter().any(|one| folder.starts_with(one));
                // An entry of an archive or of Redis has no folder.
                if self.watched.contains(folder) || !is_ours || !folder.is_dir() {
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
            && !replace(&mut self.is_told, true)
        {
            let text = format!("{} can't be watched: {error}", folder.display());
            eprintln!("note: {}; changes are found with --every", printable(&text));
        }
    }

    /// Waits for a change, or for a time. Returns false if a signal ends the command.
    async fn wait(&mut self, most: Duration) -> io::Result<bool> {
        let has_ended = tokio::select! {
            // One that came during a round counts, though changes have come, too.
            biased;
            () = &mut self.ending => true,
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

/// Least duration of the lease, which an import of a million pairs does not pass.
const LEASE: Duration = Duration::from_mins(10);
/// Time from one round that takes all pairs to the next.
const WHOLE: Duration = Duration::from_hours(1);
/// Time within which `--prune` removes one host in twenty at most.
const DAY: Duration = Duration::from_hours(24);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn ago(time: Duration) -> Option<Instant> {
        Instant::now().checked_sub(time)
    }

    #[test]
    fn all_pairs_are_taken_again_after_an_hour() {
        let mut memory = WatchMemory::default();
        assert!(memory.begin_round(), "the first one");
        assert!(!memory.begin_round());
        memory.whole = ago(WHOLE);
        memory.changes.insert("source".into(), [3, 2, 1]);
        assert!(memory.begin_round());
        assert_eq!(memory.changes["source"], [3, 2, 1], "a day is longer");
        assert!(!memory.begin_round());
        memory.day = ago(DAY);
        assert!(!memory.begin_round());
        assert_eq!(memory.changes["source"], [3, 2, 0], "nothing was counted");
    }

    #[test]
    fn a_refusal_is_told_once_after_a_minute() {
        let mut memory = WatchMemory::default();
        let place = memory.hasher.hash_one(Path::new("a.crt"));
        let round = |memory: &mut WatchMemory| {
            let mut report = Report::new(|| None);
            report.held = Some(vec![Refusal::new("a.crt", "a group", "a reason")]);
            memory.hold(&mut report).unwrap();
            let ended = report.end().unwrap().1;
            let is_held = memory.held[&place].1.is_some();
            (is_held, ended == Ended::PartlyRefused)
        };
        assert_eq!(round(&mut memory), (true, false));
        assert_eq!(round(&mut memory), (true, false));
        memory.held.get_mut(&place).unwrap().0 = ago(PATIENCE).unwrap();
        assert_eq!(round(&mut memory), (false, true));
        assert_eq!(round(&mut memory), (false, false));
    }
}
