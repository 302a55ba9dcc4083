//! What this server has seen of the catalog's log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::redis::level::{Generation, Space, State};
use sekisho_certs::store::{CatalogId, LogId, LogPosition};

#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    catalog: Option<CatalogId>,
    at: Option<LogPosition>,
    /// Where copies lie; known when both of these are.
    space: Option<Arc<Space>>,
    /// When the log was last read, if that went well.
    followed: Option<Instant>,
    /// What was held against the log and found right.
    generation: Option<Generation>,
    /// Reasons so far to hold it against the log again.
    doubts: u64,
    /// Whether numbers may have come to mean something else: no generation
    /// from before is right.
    went_back: bool,
}

/// How far this server has seen, at some moment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) space: Arc<Space>,
    pub(super) log: LogId,
    pub(super) number: u64,
    /// What may be asked; none until the bridge has been there.
    pub(super) generation: Option<Generation>,
    /// Whether only a generation that begins from now on will do.
    pub(super) went_back: bool,
    doubts: u64,
}

impl Mark {
    /// With the generation that may be asked, if there is one.
    pub(super) fn asked(self) -> Option<(Self, Generation)> {
        let generation = self.generation.clone()?;
        Some((self, generation))
    }

    /// Whether that state was held against the log, and is as far as this.
    pub(super) fn trusts(&self, state: &State) -> bool {
        self.generation.as_ref() == Some(&state.generation) && state.upto >= self.number
    }
}

impl Marks {
    /// None before the first contact with the catalog.
    pub(super) fn mark(&self) -> Option<Mark> {
        let known = self.lock();
        let at = known.at?;
        Some(Mark {
            space: Arc::clone(known.space.as_ref()?),
            log: at.log,
            number: at.number,
            generation: known.generation.clone(),
            went_back: known.went_back,
            doubts: known.doubts,
        })
    }

    /// The catalog's identity; true if it was another before.
    pub(super) fn is(&self, catalog: CatalogId) -> bool {
        let mut known = self.lock();
        let is_other = known.catalog.replace(catalog) != Some(catalog);
        if is_other {
            known.place();
        }
        is_other
    }

    /// A place in the log that was reached, and the log's end, by a call that
    /// began when `before` had been seen. True if this is another log than
    /// before, or the same one gone back: what the level says then waits for
    /// the bridge.
    pub(super) fn saw(&self, before: Option<&Mark>, reached: LogPosition, last: u64) -> bool {
        let went_back = before.is_some_and(|seen| seen.log == reached.log && last < seen.number);
        let mut known = self.lock();
        match &mut known.at {
            Some(at) if at.log == reached.log && went_back => {
                at.number = last;
                known.went_back = true;
                known.doubt();
                true
            }
            Some(at) if at.log == reached.log => {
                at.number = at.number.max(reached.number);
                false
            }
            at => {
                *at = Some(reached);
                known.place();
                true
            }
        }
    }

    /// A write of this server's own got that number; else as
    /// [`Marks::saw`].
    pub(super) fn wrote(&self, before: Option<&Mark>, number: u64) -> bool {
        let at = self.lock().at;
        at.is_some_and(|LogPosition { log, .. }| {
            self.saw(
                before,
                LogPosition {
                    log,
                    number,
                    mark: 0,
                },
                number,
            )
        })
    }

    /// What lies in the level has to be held against the log again.
    pub(super) fn doubt(&self) {
        self.lock().doubt();
    }

    /// A generation has begun, by what that mark said; nothing from before is
    /// in it.
    pub(super) fn begun(&self, mark: &Mark) {
        let mut known = self.lock();
        if known.doubts == mark.doubts {
            known.went_back = false;
        }
    }

    /// That state was held against the log, by what that mark said; false if
    /// it has to be again.
    pub(super) fn bridged(&self, mark: &Mark, state: &State) -> bool {
        let mut known = self.lock();
        let holds = known.doubts == mark.doubts && !known.went_back;
        if holds {
            known.generation = Some(state.generation.clone());
        }
        holds
    }

    /// Whether the log could be read just now. True if it can be after it could
    /// not: it may have gone back meanwhile, unseen by one that was not far.
    pub(super) fn follow(&self, read: bool) -> bool {
        let mut known = self.lock();
        let before = std::mem::replace(&mut known.followed, read.then(Instant::now));
        let resumes = read && before.is_none();
        if resumes {
            known.doubt();
        }
        resumes
    }

    /// Whether changes arrive: a feed looks each second.
    pub(super) fn follows(&self) -> bool {
        let followed = self.lock().followed;
        followed.is_some_and(|at| at.elapsed() < SILENCE)
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Known {
    fn place(&mut self) {
        if let (Some(catalog), Some(at)) = (self.catalog, self.at) {
            self.space = Some(Arc::new(Space::new(catalog, at.log)));
        }
        // Numbers of another log, and of none that is known to have gone back.
        self.went_back = false;
        self.doubt();
    }

    fn doubt(&mut self) {
        self.generation = None;
        self.doubts += 1;
    }
}

/// A look at the log may take its deadline of 2 s, a second after the last.
const SILENCE: Duration = Duration::from_secs(4);
