//! One load: read, make ready, publish, remember.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::time::Instant;

use super::flight::Flight;
use super::{Lookup, LookupError, Outcome};
use crate::cache::{Absence, Note, Served, State};
use crate::credential::CredentialId;
use crate::host::HostName;
use crate::loaded::{LoadedCredential, LoadedHost};
use crate::log::{Begun, Meanwhile, Reading, Recent};
use crate::obtain::Obtained;
use crate::record::HostRecord;
use crate::store::{Answer, Found};

/// The task that reads for all who wait. However it ends, they hear of it.
pub(super) struct Leader<V: Send + Sync + 'static> {
    lookup: Arc<Lookup<V>>,
    name: HostName,
    flight: Arc<Flight<V>>,
}

/// What one reading came to, before it is held against the changes.
enum Read<V> {
    Found(Arc<Served<V>>, Vec<CredentialId>),
    Absent(Absence, Option<Box<HostRecord>>),
}

impl<V: Send + Sync + 'static> Leader<V> {
    pub(super) fn new(lookup: &Arc<Lookup<V>>, name: &HostName, flight: Arc<Flight<V>>) -> Self {
        Self {
            lookup: Arc::clone(lookup),
            name: name.clone(),
            flight,
        }
    }

    pub(super) async fn run(self, settle: impl FnOnce(&Outcome<V>) + Send) {
        let outcome = self.outcome().await;
        self.lookup.counts.loaded(&outcome);
        settle(&outcome);
        self.flight.land(outcome);
    }

    async fn outcome(&self) -> Outcome<V> {
        for _ in 0..MOST_READS {
            let begun = self.lookup.recent().begun();
            match self.attempt(begun).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => return self.fail(error),
            }
        }
        self.fail(LookupError::BrokenOff)
    }

    /// Reads once, and obtains what is missing. None if it is to be read again.
    async fn attempt(&self, begun: Begun) -> Result<Option<Outcome<V>>, LookupError> {
        let read = self.read(begun).await?;
        if let Read::Absent(reason, record) = &read
            && *reason != Absence::Disabled
        {
            let obtain = &self.lookup.obtain;
            match obtain.obtain(&self.name, record.as_deref()).await {
                Obtained::Refused => {}
                Obtained::Stored => return Ok(None),
                Obtained::Failed(why) => return Err(LookupError::NotObtained(why)),
            }
        }
        let recent = self.lookup.recent();
        let outcome = self.lookup.settle(&recent, &self.name, begun, read);
        if outcome.is_some() {
            self.leave(&recent);
        }
        Ok(outcome)
    }

    fn fail(&self, error: LookupError) -> Outcome<V> {
        let recent = self.lookup.recent();
        let outcome = self.lookup.stale_or(&self.name, error);
        self.leave(&recent);
        outcome
    }

    /// Step 3, and making ready what it gave.
    async fn read(&self, begun: Begun) -> Result<Read<V>, LookupError> {
        let asked = Instant::now();
        let answer = self.lookup.store.find(&self.name).await;
        let counts = &self.lookup.counts;
        counts.asked(asked.elapsed(), &answer);
        match answer? {
            Answer::Absent => Ok(Read::Absent(Absence::NoHost, None)),
            Answer::Found(found) if found.record.disabled => Ok(Read::Absent(
                Absence::Disabled,
                Some(Box::new(found.record)),
            )),
            Answer::Found(found) if found.credentials.is_empty() => Ok(Read::Absent(
                Absence::NoCredential,
                Some(Box::new(found.record)),
            )),
            Answer::Found(found) => self
                .lookup
                .make_ready(*found, begun)
                .map_err(|why| LookupError::Unusable(why.into())),
        }
    }

    /// Lets nobody join any more. The lock shows that no change was applied
    /// since the outcome was decided: who comes after a change gets a new load.
    fn leave(&self, _: &Recent) {
        self.remove();
    }

    fn remove(&self) {
        let mut flights = self.lookup.flights();
        // Removed before, it may have left the place to another.
        if flights
            .get(&self.name)
            .is_some_and(|there| Arc::ptr_eq(there, &self.flight))
        {
            flights.remove(&self.name);
        }
    }
}

impl<V: Send + Sync + 'static> Drop for Leader<V> {
    fn drop(&mut self) {
        // After a regular end this finds the flight landed and changes nothing.
        self.remove();
        self.flight.land(Outcome::Failed(LookupError::BrokenOff));
    }
}

impl<V: Send + Sync + 'static> Lookup<V> {
    fn make_ready(&self, found: Found, begun: Begun) -> Result<Read<V>, String> {
        let ids: Vec<_> = found.credentials.iter().map(|stored| stored.id).collect();
        let mut credentials = Vec::with_capacity(found.credentials.len());
        for stored in found.credentials {
            credentials.push(self.interner.intern(stored, begun.epoch)?);
        }
        credentials.sort_by_key(|credential: &Arc<LoadedCredential>| credential.key_type);
        let host = Arc::new(LoadedHost {
            record: found.record,
            credentials,
        });
        let published = (self.publish)(&host)?;
        let state = State {
            shadowed: AtomicBool::new(found.shadowed),
            epoch: begun.epoch,
            fresh_until: AtomicU64::new(self.freshness.record(found.fresh_for)),
            respite_until: AtomicU64::new(0),
            refreshing: AtomicBool::new(false),
        };
        Ok(Read::Found(
            Arc::new(Served::new(host, published.value, published.weight, state)),
            ids,
        ))
    }

    /// Holds a reading against the changes since it began, and remembers it.
    /// None if it must be read again.
    fn settle(
        &self,
        recent: &Recent,
        name: &HostName,
        begun: Begun,
        read: Read<V>,
    ) -> Option<Outcome<V>> {
        let (pattern, credentials) = match &read {
            Read::Found(served, ids) => (Some(&served.host().record.pattern), ids.as_slice()),
            Read::Absent(..) => (None, [].as_slice()),
        };
        let meanwhile = recent.meanwhile(
            begun,
            &Reading {
                name,
                pattern,
                credentials,
            },
        );
        if meanwhile == Meanwhile::Overtaken {
            return None;
        }
        let (outcome, moved) = match read {
            Read::Found(served, _) => {
                if meanwhile == Meanwhile::Shadowed {
                    served.state.shadowed.store(true, Ordering::Relaxed);
                }
                let moved = self.cache.insert(name, &served);
                (Outcome::Found(served), moved)
            }
            Read::Absent(reason, _) => {
                let note = Note::Absent {
                    reason,
                    epoch: begun.epoch,
                    fresh_until: self.freshness.absence(),
                };
                (
                    Outcome::Absent(reason),
                    self.cache.insert_absence(name, note),
                )
            }
        };
        if moved {
            self.moved(recent);
        }
        Some(outcome)
    }

    /// While the store fails, what it last said is served on; but not with a
    /// credential that is known to be replaced, since that is what is done
    /// with a key that has leaked.
    fn stale_or(&self, name: &HostName, error: LookupError) -> Outcome<V> {
        if matches!(error, LookupError::NotObtained(_)) {
            // The store did answer: there is nothing to serve.
            return Outcome::Failed(error);
        }
        let exact = self.cache.exact(name.as_str());
        let stale = exact.or_else(|| match self.cache.note(name.as_str()) {
            Some(Note::Absent { .. }) => None,
            Some(Note::Alias { .. }) => self.cache.wildcard(name.as_str()),
            None => self
                .cache
                .wildcard(name.as_str())
                .filter(|above| !above.state.shadowed.load(Ordering::Relaxed)),
        });
        match stale.filter(|stale| !stale.host().is_superseded()) {
            Some(stale) => {
                let respite = &stale.state.respite_until;
                respite.store(self.freshness.respite(), Ordering::Relaxed);
                self.counts.served_stale(&error);
                Outcome::Found(stale)
            }
            None => Outcome::Failed(error),
        }
    }
}

/// How often a load that changes overtake reads anew before it gives up.
const MOST_READS: usize = 8;
