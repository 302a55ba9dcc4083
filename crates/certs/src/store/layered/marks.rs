//! What this server has seen of the catalog's log.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

use crate::store::redis::level::Space;
use crate::store::{CatalogId, LogId, Position};

#[derive(Debug, Default)]
pub(super) struct Marks(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    catalog: Option<CatalogId>,
    at: Option<Position>,
    /// Where copies lie; known when both of these are.
    space: Option<Arc<Space>>,
    /// When the log was last read, if that went well.
    followed: Option<Instant>,
}

/// How far this server has seen, at some moment.
#[derive(Clone, Debug)]
pub(super) struct Mark {
    pub(super) space: Arc<Space>,
    pub(super) log: LogId,
    pub(super) number: u64,
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
        })
    }

    /// The catalog's identity.
    pub(super) fn is(&self, catalog: CatalogId) {
        let mut known = self.lock();
        known.catalog = Some(catalog);
        known.place();
    }

    /// A place in the log that was reached; true if this is another log than
    /// before.
    pub(super) fn saw(&self, position: Position) -> bool {
        let mut known = self.lock();
        match &mut known.at {
            Some(at) if at.log == position.log => {
                at.number = at.number.max(position.number);
                false
            }
            at => {
                *at = Some(position);
                known.place();
                true
            }
        }
    }

    /// A write of this server's own got that number.
    pub(super) fn wrote(&self, number: u64) {
        if let Some(at) = &mut self.lock().at {
            at.number = at.number.max(number);
        }
    }

    /// Whether the log could be read just now.
    pub(super) fn follow(&self, read: bool) {
        self.lock().followed = read.then(Instant::now);
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
    }
}

/// A look at the log may take its deadline of 2 s, a second after the last.
const SILENCE: Duration = Duration::from_secs(4);
