//! Changes of the catalog, applied to what is remembered.

use std::sync::atomic::Ordering;

use super::freshness::FeedState;
use super::{Lookup, Recent};
use crate::store::{Change, ChangePage, Position, Subject};

/// What the change feed drives, whatever `V` the server keeps.
pub trait Apply: Send + Sync + 'static {
    /// The place in the log up to which changes are applied; none before the
    /// first contact.
    fn applied(&self) -> Option<Position>;

    /// Starts over behind `position`: what is remembered is read again before
    /// it is trusted, and stays at hand for the case that reading fails.
    fn restart(&self, position: Position);

    /// Applies a page that continues what was applied.
    fn apply(&self, page: &ChangePage);

    /// Reports whether changes arrive. [`FeedState::Healthy`] holds for 10 s and
    /// must be repeated: a feed without success for longer counts as broken.
    fn feed_is(&self, state: FeedState);
}

impl<V: Send + Sync + 'static> Apply for Lookup<V> {
    fn applied(&self) -> Option<Position> {
        let recent = self.recent();
        recent.log.map(|log| Position {
            log,
            number: recent.number,
        })
    }

    fn restart(&self, position: Position) {
        let mut recent = self.recent();
        recent.restart(position.log, position.number);
        self.epoch.store(recent.epoch, Ordering::Release);
        self.moved(&recent);
    }

    fn apply(&self, page: &ChangePage) {
        let mut recent = self.recent();
        for change in &page.changes {
            recent.push(change);
            if let Subject::Credential(id) = &change.subject {
                self.interner.supersede(*id, recent.epoch, change.number);
            }
        }
        let hosts = page
            .changes
            .iter()
            .filter_map(|change| match &change.subject {
                Subject::Host(pattern) => Some((change.number, pattern)),
                Subject::Credential(_) | Subject::Document { .. } => None,
            });
        self.cache.changed(recent.epoch, hosts);
        let concerns_hosts = |change: &Change| !matches!(change.subject, Subject::Document { .. });
        if page.changes.iter().any(concerns_hosts) {
            self.moved(&recent);
        }
    }

    fn feed_is(&self, state: FeedState) {
        self.freshness.set_feed(state);
    }
}

impl<V> Lookup<V> {
    /// Tells connections to look again. The lock shows that cache and epoch
    /// say so already.
    pub(super) fn moved(&self, _: &Recent) {
        self.tick.fetch_add(1, Ordering::AcqRel);
    }
}
