//! A catalog with Redis as a level before it.
//!
//! A look-up asks
//!
//! 1. the level, while the catalog's changes arrive;
//! 2. the catalog;
//! 3. the level, if the catalog can't be reached and 1 was left out.
//!
//! What the catalog gave is stored in the level afterwards, in nobody's way.
//! Absences are never stored, nor is a wildcard with exact records below it:
//! both would have to be right about names that are not there.
//!
//! **Nothing is served that this server has seen replaced.** The level holds
//! what the catalog held at one number of its log ([`super::redis::level`]
//! says how), and each question carries the highest number that this server
//! has seen, in pages of the log or from writes of its own; a level that is
//! not as far gives no answer. So that it usually is as far, each page of
//! changes is carried into the level before it is given to the feed, within
//! 40 ms; the first server does it, for the others it is done.
//!
//! **A level that fails is passed over.** One call that fails or takes too
//! long, and none asks it any more, until a task in the background has reached
//! it and has brought it to the present: it reads how far the level is, pages
//! the catalog's log from there, and carries that in. The last of these calls
//! has to be as quick as a look-up's, and a level that fails again soon is left
//! alone for longer each time, up to a second. Where the log no longer
//! goes back so far, or the level is empty, everything in it is given up by a
//! new generation. A level that went back in time, by an old snapshot or a
//! replica that lagged behind, is just one that is not as far.
//!
//! **A catalog that went back takes the level with it.** A database restored
//! from a snapshot may give the same log with lower numbers, and then use them
//! again for other changes. A server that sees its log end before what it had
//! seen begins a new generation; one that starts, or reads the log again after
//! it could not, asks the level only after its number was found in the log.

mod bridge;
mod catalog;
mod counts;
mod marks;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::timeout;

pub use self::counts::{Counts, Filled, Read};
use self::marks::{Mark, Marks};
use crate::redis::level::{Entry, Level, Look};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::HostName;
use sekisho_certs::store::{
    Answer, Catalog, ChangePage, Found, LogPosition, Result, Source, StoreError,
};

/// A catalog of sealed secrets that is asked less often.
pub struct Layered {
    shared: Arc<Shared>,
    bridge: JoinHandle<()>,
}

/// The bounds of [`Layered`].
#[derive(Clone, Debug)]
pub struct Waits {
    /// How long a look-up waits for the level.
    pub look: Duration,
    /// How long a page of changes waits for it.
    pub tell: Duration,
    /// How long calls wait that nobody waits for.
    pub background: Duration,
}

impl Default for Waits {
    /// A level answers within a millisecond; a change may take 100 ms in all.
    fn default() -> Self {
        Self {
            look: Duration::from_millis(50),
            tell: Duration::from_millis(40),
            background: Duration::from_secs(1),
        }
    }
}

struct Shared {
    level: Level,
    catalog: Arc<dyn Catalog>,
    runtime: Handle,
    waits: Waits,
    marks: Marks,
    /// Whether the level is asked.
    usable: AtomicBool,
    /// Whether it was lost by a call that failed or took too long.
    failed: AtomicBool,
    /// Wakes the bridge.
    lost: Notify,
    fills: Arc<Semaphore>,
    counts: Counts,
}

impl Layered {
    /// Puts a level before a catalog, whose calls are bounded already. What
    /// runs in the background runs on that runtime.
    #[must_use]
    pub fn new(level: Level, catalog: Arc<dyn Catalog>, waits: Waits, runtime: &Handle) -> Self {
        let shared = Arc::new(Shared {
            level,
            catalog,
            runtime: runtime.clone(),
            waits,
            marks: Marks::default(),
            usable: AtomicBool::new(false),
            failed: AtomicBool::new(false),
            lost: Notify::new(),
            fills: Arc::new(Semaphore::new(FILLS)),
            counts: Counts::default(),
        });
        let bridge = runtime.spawn(bridge::keep(Arc::clone(&shared)));
        Self { shared, bridge }
    }

    /// What it counts; stays connected to it.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.shared.counts.clone()
    }
}

impl Drop for Layered {
    fn drop(&mut self) {
        self.bridge.abort();
    }
}

impl fmt::Debug for Layered {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Layered")
            .field("level", &self.shared.level)
            .field("catalog", &self.shared.catalog)
            .finish_non_exhaustive()
    }
}

impl Shared {
    /// The numbered list at the head of this file.
    async fn find(self: &Arc<Self>, name: &HostName) -> Result<Answer<SealedBytes>> {
        let follows = self.marks.follows();
        if follows && let Some(found) = self.look(name).await {
            return Ok(Answer::found(found));
        }
        match self.find_behind(name).await {
            Err(error) if error.is_retryable() && !follows => {
                let mut found = self.look(name).await.ok_or(error)?;
                found.source = Source::StandIn;
                Ok(Answer::found(found))
            }
            other => other,
        }
    }

    /// Asks the catalog, whose answer takes the place of the level's.
    async fn find_behind(self: &Arc<Self>, name: &HostName) -> Result<Answer<SealedBytes>> {
        // Before the catalog is asked: what it says is at least as new.
        let begun = self.marks.mark();
        let answer = self.catalog.find(name).await?;
        if let Some(found) = &answer.found {
            self.offer(begun, found);
        }
        Ok(answer)
    }

    /// What the level has; none if it has nothing, or is passed over.
    async fn look(self: &Arc<Self>, name: &HostName) -> Option<Box<Found<SealedBytes>>> {
        let mark = self.marks.mark().filter(|_| self.is_usable());
        let Some((mark, generation)) = mark.and_then(Mark::asked) else {
            self.counts.read(Read::PassedOver);
            return None;
        };
        let level = &self.level;
        let looked = level.look(&mark.space, &generation, mark.number, name);
        let read = match in_time(self.waits.look, looked).await {
            Ok(Look::Found(found)) => {
                self.counts.read(Read::Hit);
                return Some(found);
            }
            Ok(Look::Miss) => Read::Miss,
            Ok(Look::Damaged(why)) => {
                if self.counts.damaged().is_power_of_two() {
                    tracing::warn!(host = %name, %why, "Redis holds something unusable, the catalog is asked");
                }
                Read::Miss
            }
            Ok(Look::Behind) => {
                self.lose();
                Read::PassedOver
            }
            Err(error) => {
                self.fail(&error);
                Read::PassedOver
            }
        };
        self.counts.read(read);
        None
    }

    /// Stores an answer in the level, while its client is served.
    fn offer(self: &Arc<Self>, begun: Option<Mark>, found: &Found<SealedBytes>) {
        let Some(begun) = begun.filter(|_| self.is_usable() && !found.shadowed) else {
            return;
        };
        let Some(generation) = begun.generation else {
            return;
        };
        let Ok(entry) = Entry::of(found) else {
            self.counts.filled(Filled::Refused);
            return;
        };
        let Ok(turn) = Arc::clone(&self.fills).try_acquire_owned() else {
            self.counts.filled(Filled::Dropped);
            return;
        };
        let shared = Arc::clone(self);
        self.runtime.spawn(async move {
            let level = &shared.level;
            let fill = level.fill(&begun.space, &generation, begun.number, &entry);
            let filled = match in_time(shared.waits.background, fill).await {
                Ok(true) => Filled::Stored,
                Ok(false) => Filled::Refused,
                Err(error) => {
                    shared.fail(&error);
                    Filled::Failed
                }
            };
            shared.counts.filled(filled);
            drop(turn);
        });
    }

    /// Carries a page of changes into the level, and only then takes it for
    /// seen: until then the level is as far as this server is. The call for
    /// it began when `before` had been seen.
    async fn tell(&self, before: Option<&Mark>, after: u64, page: &ChangePage) {
        let reached = LogPosition {
            log: page.log,
            mark: 0,
            number: match (page.gap, page.changes.last()) {
                (true, _) => page.last,
                (false, Some(last)) => last.number,
                (false, None) => after,
            },
        };
        if let Some((mark, generation)) = self.marks.mark().and_then(Mark::asked)
            && mark.log == page.log
            && !page.gap
            && !page.changes.is_empty()
            && self.is_usable()
        {
            let (last, changes) = (reached.number, &page.changes);
            let level = &self.level;
            let told = level.advance(&mark.space, &generation, after, last, changes);
            match in_time(self.waits.tell, told).await {
                Ok(true) => {}
                Ok(false) => self.lose(),
                Err(error) => self.fail(&error),
            }
        }
        if page.gap {
            self.marks.doubt();
        }
        if self.marks.saw(before, reached, page.last) || page.gap {
            self.lose();
        }
    }

    /// Whether the log could be read just now.
    fn follow(&self, read: bool) {
        if self.marks.follow(read) {
            self.lose();
        }
    }

    fn is_usable(&self) -> bool {
        self.usable.load(Ordering::Acquire)
    }

    /// Passes the level over until the bridge has been there.
    fn lose(&self) {
        self.usable.store(false, Ordering::Release);
        self.counts.usable(false);
        self.lost.notify_one();
    }

    /// The same for a call that failed or took too long: the bridge rests
    /// before it goes there.
    fn fail(&self, error: &StoreError) {
        tracing::debug!(%error, "Redis is passed over");
        self.failed.store(true, Ordering::Release);
        self.lose();
    }
}

/// Drops the call where it takes too long: whether it has an effect, the state
/// in the level tells.
async fn in_time<T>(bound: Duration, call: impl Future<Output = Result<T>>) -> Result<T> {
    let answer = timeout(bound, call).await;
    answer.unwrap_or(Err(StoreError::TimedOut(bound)))
}

/// Fills under way at most, some kilobytes each; further ones are left out.
const FILLS: usize = 64;

#[cfg(test)]
mod tests;
