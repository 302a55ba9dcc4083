//! Changes of the catalog, applied to what is remembered.

use std::future::ready;
use std::sync::atomic::Ordering;

use super::freshness::FeedState;
use super::{Lookup, Recent};
use crate::feed::Follower;
use crate::store::{BoxFuture, Change, ChangePage, Position, Subject};

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Starts over behind `position`: what is remembered is read again before
    /// it is trusted, and stays at hand for the case that reading fails.
    pub fn restart(&self, position: Position) {
        let mut recent = self.recent();
        recent.restart(position.log, position.number);
        self.epoch.store(recent.epoch, Ordering::Release);
        self.moved(&recent);
    }

    /// Applies a page that continues what was applied.
    pub fn apply(&self, page: &ChangePage) {
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

    /// Tells connections to look again. The lock shows that cache and epoch
    /// say so already.
    pub(super) fn moved(&self, _: &Recent) {
        self.tick.fetch_add(1, Ordering::AcqRel);
    }
}

impl<V: Send + Sync + 'static> Follower for Lookup<V> {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        self.apply(page);
        Box::pin(ready(()))
    }

    fn start_over(&self, at: Position) -> BoxFuture<'_, ()> {
        self.restart(at);
        Box::pin(ready(()))
    }

    fn feed_is(&self, state: FeedState) {
        self.freshness.set_feed(state);
    }
}
