//! Second door of a lookup: for callers that serve a record without a credential, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::freshness::Age;
use super::singleflight::{PlainWait, STORED, Wait};
use super::{Lookup, Outcome};
use crate::cache::{Absence, Note, Served};
use crate::host::HostName;

/// Steps 1 to 3 of a lookup, for plain HTTP. A handshake is never told of a record
/// without a credential: for it, [`Absence::NoCredential`] is the answer. One read answers
/// callers of both kinds.
impl<V: Send + Sync + 'static> Lookup<V> {
    /// Does step 1: returns what the cache has for this name, a record without a
    /// credential, too. An old record may be read again in the background.
    pub fn hit_plain(self: &Arc<Self>, name: &HostName) -> Option<Outcome<V>> {
        let (outcome, age) = self.remembered_plain(name)?;
        if let (Age::Refresh, Outcome::Found(served)) = (age, &outcome) {
            self.refresh(name, STORED, served);
        }
        self.counts.hit(&outcome);
        Some(outcome)
    }

    /// Does step 3, or joins the read in flight. No certificate is issued. `observe` is
    /// called as by [`Self::load_with`], hence with [`Absence::NoCredential`] for a record
    /// without one.
    pub fn read_plain(
        self: &Arc<Self>,
        name: &HostName,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> PlainWait<V> {
        let flights = self.flights();
        // A flight may have ended since the caller saw the miss.
        let wait = match self.remembered_plain(name) {
            Some((outcome, _)) => Wait::known(outcome),
            None => self.fly(flights, name, STORED, observe),
        };
        PlainWait(wait)
    }

    /// Returns the record without a credential that answers `name`, for a read that has
    /// failed (stale-if-error). It is served for a while before the store is asked again.
    pub(super) fn stale_bare(&self, name: &HostName) -> Option<Arc<Served<V>>> {
        let stale = self.bare(name)?.served;
        let retry_at = self.freshness.retry_at();
        stale.state.retry_at.store(retry_at, Ordering::Relaxed);
        Some(stale)
    }

    /// Returns what is cached and needs no new read first.
    fn remembered_plain(&self, name: &HostName) -> Option<(Outcome<V>, Age)> {
        if let Some(bare) = self.bare(name) {
            return self.usable_as(bare.served, bare.epoch, bare.fresh_until);
        }
        match self.remembered(name, STORED)? {
            // The record that the note is about has left the cache.
            (Outcome::Absent(Absence::NoCredential), _) => None,
            remembered => Some(remembered),
        }
    }

    /// Returns the cached record without a credential that answers `name`. It answers in
    /// place of a wildcard only if it is exact. A wildcard answers a name that has a note
    /// only if the note names the version that was read with it.
    fn bare(&self, name: &HostName) -> Option<Bare<V>> {
        let key = name.as_str();
        if let Some(exact) = self.cache.exact_any(key) {
            return Bare::of(exact);
        }
        let Some(note) = self.cache.note(key) else {
            let above = Bare::of(self.cache.wildcard_any(key)?)?;
            let shadowed = above.served.state.shadowed.load(Ordering::Relaxed);
            return (!shadowed).then_some(above);
        };
        match note {
            Note::Absent {
                epoch,
                fresh_until,
                above: version,
                ..
            } => {
                let above = Bare::of(self.cache.wildcard_any(key)?)?;
                let is_meant = above.served.host().record.version == version;
                is_meant.then_some(Bare {
                    epoch,
                    fresh_until,
                    ..above
                })
            }
            Note::Alias { .. } => None,
        }
    }
}

/// Record without a credential, with the epoch and freshness of what leads to it.
struct Bare<V> {
    served: Arc<Served<V>>,
    epoch: u64,
    fresh_until: u64,
}

impl<V> Bare<V> {
    /// Makes one of a cached record; none if that has a credential.
    fn of(served: Arc<Served<V>>) -> Option<Self> {
        let state = &served.state;
        let (epoch, fresh_until) = (state.epoch, state.fresh_until.load(Ordering::Relaxed));
        let is_bare = !served.is_certified();
        is_bare.then_some(Self {
            served,
            epoch,
            fresh_until,
        })
    }
}
