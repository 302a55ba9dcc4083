//! Applies the catalog's changes to the cache.

use std::future::ready;
use std::sync::atomic::Ordering;

use super::{Lookup, Recent};
use crate::store::{BoxFuture, Change, ChangePage, FeedState, Follower, LogPosition, Subject};

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Starts over behind `position`: each cached record is read again before it
    /// is trusted, and is served on where that read fails.
    pub fn restart(&self, position: LogPosition) {
        let mut recent = self.recent();
        recent.restart(position);
        self.epoch.store(recent.epoch, Ordering::Release);
        self.raise_revision(&recent);
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
                Subject::Credential(_) | Subject::Document(_) => None,
            });
        self.cache.changed(recent.epoch, hosts);
        let concerns_hosts = |change: &Change| !matches!(change.subject, Subject::Document(_));
        if page.changes.iter().any(concerns_hosts) {
            self.raise_revision(&recent);
        }
    }

    /// Raises the revision, so that connections look their hosts up again.
    /// `recent` is locked: cache and epoch are as they will find them.
    pub(super) fn raise_revision(&self, _: &Recent) {
        self.revision.fetch_add(1, Ordering::AcqRel);
    }
}

impl<V: Send + Sync + 'static> Follower for Lookup<V> {
    fn follow<'a>(&'a self, page: &'a ChangePage) -> BoxFuture<'a, ()> {
        self.apply(page);
        Box::pin(ready(()))
    }

    fn start_over(&self, at: LogPosition) -> BoxFuture<'_, ()> {
        self.restart(at);
        Box::pin(ready(()))
    }

    fn feed_is(&self, state: FeedState) {
        self.freshness.set_feed(state);
    }
}
