//! Lookup for callers that serve a record without a credential, too.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::freshness::Age;
use super::singleflight::{AnyWait, STORED, Wait};
use super::{Lookup, Outcome};
use crate::cache::{Absence, Note, Served, UNSERVED};
use crate::host::HostName;

/// Steps 1 to 3 of a lookup, for plain HTTP. A handshake is never told of a record
/// without a credential: for it, [`Absence::NoCredential`] is the answer. One read answers
/// callers of both kinds.
impl<V: Send + Sync + 'static> Lookup<V> {
    /// Does step 1: returns what the cache has for this name, a record without a
    /// credential, too. An old record may be read again in the background.
    pub fn hit_any(self: &Arc<Self>, name: &HostName) -> Option<Outcome<V>> {
        let (outcome, age) = self.remembered_any(name)?;
        if let (Age::Refresh, Outcome::Found(served)) = (age, &outcome) {
            self.refresh(name, STORED, served);
        }
        self.counts.hit(&outcome);
        Some(outcome)
    }

    /// Does step 3, or joins the read in flight. No certificate is issued. `observe` is
    /// called as by [`Self::load_with`], hence with [`Absence::NoCredential`] for a record
    /// without one.
    pub fn read_any(
        self: &Arc<Self>,
        name: &HostName,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> AnyWait<V> {
        let flights = self.flights();
        // A flight may have ended since the caller saw the miss.
        let wait = match self.remembered_any(name) {
            Some((outcome, _)) => Wait::known(outcome),
            None => self.fly(flights, name, STORED, observe),
        };
        AnyWait(wait)
    }

    /// Returns the record without a credential that answers `name`, for a read that has
    /// failed (stale-if-error). It is served for a while before the store is asked again.
    pub(super) fn stale_bare(&self, name: &HostName) -> Option<Arc<Served<V>>> {
        let (stale, ..) = self.bare(name)?;
        let retry_at = self.freshness.retry_at();
        stale.state.retry_at.store(retry_at, Ordering::Relaxed);
        Some(stale)
    }

    /// Returns what is cached and needs no new read first.
    fn remembered_any(&self, name: &HostName) -> Option<(Outcome<V>, Age)> {
        if let Some((bare, epoch, fresh_until)) = self.bare(name) {
            return self.usable_as(bare, epoch, fresh_until);
        }
        let is_unserved = match self.cache.note(name.as_str()) {
            Some(Note::Absent { above, .. }) => above == UNSERVED,
            _ => false,
        };
        match self.remembered(name, STORED)? {
            // The record that the note is about has left the cache.
            (Outcome::Absent(Absence::NoCredential), _) if !is_unserved => None,
            remembered => Some(remembered),
        }
    }

    /// Returns the cached record without a credential that answers `name`, with the epoch and
    /// the freshness of what leads to it. An exact one answers in place of a wildcard. A
    /// wildcard answers a name that has a note only if the note names the version that was
    /// read with it.
    fn bare(&self, name: &HostName) -> Option<(Arc<Served<V>>, u64, u64)> {
        let key = name.as_str();
        let (served, led) = match (self.cache.exact_any(key), self.cache.note(key)) {
            (Some(exact), _) => (exact, None),
            (None, None) => {
                let above = self.cache.wildcard_any(key)?;
                let shadowed = above.state.shadowed.load(Ordering::Relaxed);
                ((!shadowed).then_some(above)?, None)
            }
            (None, Some(Note::Alias { .. })) => return None,
            (
                None,
                Some(Note::Absent {
                    epoch,
                    fresh_until,
                    above: version,
                    ..
                }),
            ) => {
                let above = self.cache.wildcard_any(key)?;
                let is_meant = above.host().record.version == version;
                (is_meant.then_some(above)?, Some((epoch, fresh_until)))
            }
        };
        let state = &served.state;
        let own = (state.epoch, state.fresh_until.load(Ordering::Relaxed));
        let (epoch, fresh_until) = led.unwrap_or(own);
        (!served.is_certified()).then_some((served, epoch, fresh_until))
    }
}
