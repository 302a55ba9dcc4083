//! Load of a name: read, prepare, publish, cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use tokio::sync::oneshot::Sender;
use tokio::time::Instant;

use super::singleflight::Call;
use super::{Lookup, LookupError, Outcome};
use crate::cache::{Absence, EntryState, Note, Served};
use crate::credential::CredentialId;
use crate::host::HostName;
use crate::loaded::{LoadedCredential, LoadedHost};
use crate::log::{Begun, LoadSubjects, Meanwhile, Recent};
use crate::obtain::Obtained;
use crate::record::HostRecord;
use crate::seal::OpenKey;
use crate::store::Found;

/// Task that reads for all waiters of a [`Call`]. Dropping it ends the call, so
/// a runtime that ends leaves no waiter behind.
pub(super) struct Load<V: Send + Sync + 'static> {
    pub(super) lookup: Arc<Lookup<V>>,
    pub(super) name: HostName,
    /// As it stands among the calls in flight; never polled here.
    pub(super) call: Call<V>,
    /// None once the call has ended.
    pub(super) complete: Option<Sender<Outcome<V>>>,
}

/// Result of one read, before it is compared with the changes since it began.
enum Read<V> {
    Found(Arc<Served<V>>, Vec<CredentialId>),
    Absent(Absence, Option<Box<HostRecord>>),
}

impl<V: Send + Sync + 'static> Load<V> {
    pub(super) async fn run(mut self, observe: impl FnOnce(&Outcome<V>) + Send) {
        let outcome = self.outcome().await;
        self.lookup.counts.loaded(&outcome);
        observe(&outcome);
        if let Some(complete) = self.complete.take() {
            // An error tells that all waiters have left.
            let _ = complete.send(outcome);
        }
    }

    async fn outcome(&self) -> Outcome<V> {
        for _ in 0..MAX_READS {
            let begun = self.lookup.recent().begun();
            match self.attempt(begun).await {
                Ok(Some(outcome)) => return outcome,
                Ok(None) => {}
                Err(error) => return self.fail(error),
            }
        }
        self.fail(LookupError::BrokenOff)
    }

    /// Reads once, and obtains a missing credential. Returns none if the name
    /// must be read again.
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
        let outcome = self.lookup.commit(&recent, &self.name, begun, read);
        if outcome.is_some() {
            self.leave(&recent);
        }
        Ok(outcome)
    }

    /// Falls back on a stale record, if there is one.
    fn fail(&self, error: LookupError) -> Outcome<V> {
        let recent = self.lookup.recent();
        let outcome = self.lookup.stale_if_error(&self.name, error);
        self.leave(&recent);
        outcome
    }

    /// Asks the store and prepares its answer.
    async fn read(&self, begun: Begun) -> Result<Read<V>, LookupError> {
        let asked = Instant::now();
        let answer = self.lookup.store.find(&self.name).await;
        let lookup = &self.lookup;
        lookup.counts.asked(asked.elapsed(), answer.is_err());
        lookup.freshness.asked(&answer);
        match answer?.found {
            None => Ok(Read::Absent(Absence::NoHost, None)),
            Some(found) if found.record.disabled => Ok(Read::Absent(
                Absence::Disabled,
                Some(Box::new(found.record)),
            )),
            Some(found) if found.credentials.is_empty() => Ok(Read::Absent(
                Absence::NoCredential,
                Some(Box::new(found.record)),
            )),
            Some(found) => self
                .lookup
                .prepare(*found, begun)
                .map_err(|why| LookupError::Unusable(why.into())),
        }
    }

    /// Lets no lookup join any more. `recent` is locked since the outcome was
    /// decided: a lookup that follows a later change starts a new load.
    fn leave(&self, _: &Recent) {
        self.remove();
    }

    fn remove(&self) {
        let mut calls = self.lookup.calls();
        // After a removal, another call may stand under this name.
        if calls
            .get(&self.name)
            .is_some_and(|there| there.ptr_eq(&self.call))
        {
            calls.remove(&self.name);
        }
    }
}

impl<V: Send + Sync + 'static> Drop for Load<V> {
    fn drop(&mut self) {
        // Before the sender goes: no waiter may join a call that is broken off.
        self.remove();
    }
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Loads the credentials and publishes the record, before the read is
    /// compared with the changes since it began.
    fn prepare(&self, found: Found<OpenKey>, begun: Begun) -> Result<Read<V>, String> {
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
        let state = EntryState {
            shadowed: AtomicBool::new(found.shadowed),
            epoch: begun.epoch,
            fresh_until: AtomicU64::new(self.freshness.record(found.fresh_for)),
            retry_at: AtomicU64::new(0),
            refreshing: AtomicBool::new(false),
        };
        Ok(Read::Found(
            Arc::new(Served::new(host, published.value, published.weight, state)),
            ids,
        ))
    }

    /// Compares a read with the changes since it began, and caches it. Returns
    /// none if the name must be read again.
    fn commit(
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
            &LoadSubjects {
                name,
                pattern,
                credentials,
            },
        );
        if meanwhile == Meanwhile::Overtaken {
            return None;
        }
        let (outcome, replaced) = match read {
            Read::Found(served, _) => {
                if meanwhile == Meanwhile::Shadowed {
                    served.state.shadowed.store(true, Ordering::Relaxed);
                }
                let replaced = self.cache.insert(name, &served);
                (Outcome::Found(served), replaced)
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
        if replaced {
            self.raise_revision(recent);
        }
        Some(outcome)
    }

    /// Serves the cached record on when a load fails (stale-if-error, RFC 5861),
    /// except with a credential that is known to be replaced: keys that leaked
    /// are replaced.
    fn stale_if_error(&self, name: &HostName, error: LookupError) -> Outcome<V> {
        if matches!(error, LookupError::NotObtained(_)) {
            // The store answered: there is nothing to serve.
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
                let retry_at = self.freshness.retry_at();
                stale.state.retry_at.store(retry_at, Ordering::Relaxed);
                self.counts.served_stale(&error);
                Outcome::Found(stale)
            }
            None => Outcome::Failed(error),
        }
    }
}

/// Reads of one load. Each further read means that a change overtook the one
/// before, within the milliseconds that a read takes.
const MAX_READS: usize = 8;
