//! Load of a name: read, prepare, publish, cache.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use futures_util::FutureExt as _;
use tokio::time::Instant;

use super::freshness::RETRY_DELAY;
use super::singleflight::{Audience, Call};
use super::{Lookup, LookupError, Outcome};
use crate::cache::{Absence, EntryState, Note, Served};
use crate::credential::CredentialId;
use crate::host::HostName;
use crate::loaded::{LoadedCredential, LoadedHost};
use crate::log::{Begun, LoadSubjects, Meanwhile, Recent};
use crate::metrics::InGauge;
use crate::obtain::Obtained;
use crate::record::HostRecord;
use crate::seal::OpenKey;
use crate::store::{Answer, Found};

/// Task that reads for all waiters of a [`Call`]. Dropping it ends the call, so
/// a runtime that ends leaves no waiter behind.
pub(super) struct Load<V: Send + Sync + 'static, O> {
    pub(super) lookup: Arc<Lookup<V>>,
    pub(super) name: HostName,
    /// As it stands among the calls in flight; never polled here.
    pub(super) call: Call<V>,
    pub(super) audience: Audience<V, O>,
}

/// Result of one read, before it is compared with the changes since it began.
enum Read<V> {
    Found(Arc<Served<V>>, Vec<CredentialId>),
    Missing(Missing),
}

/// Answer of the store that leaves nothing to serve.
struct Missing {
    reason: Absence,
    /// The record, if there is one.
    record: Option<Box<HostRecord>>,
    /// True if a copy answered in place of the store.
    is_stale: bool,
    /// Time for which this is remembered; none for no such bound.
    holds: Option<Duration>,
    /// Why an allowed issuance failed.
    not_obtained: Option<Arc<str>>,
}

impl<V: Send + Sync + 'static, O: FnOnce(&Outcome<V>)> Load<V, O> {
    pub(super) async fn run(mut self) {
        let outcome = self.outcome().await;
        self.lookup.counts.loaded(&outcome);
        self.audience.ended(outcome);
    }

    async fn outcome(&mut self) -> Outcome<V> {
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
    async fn attempt(&mut self, begun: Begun) -> Result<Option<Outcome<V>>, LookupError> {
        let mut read = self.lookup.read(&self.name, begun).await?;
        if let Read::Missing(missing) = &mut read {
            match self.obtain(missing).await {
                Obtained::Stored => return Ok(None),
                Obtained::Refused { retry_after } => missing.holds = retry_after,
                Obtained::Failed { why, retry_after } => {
                    missing.holds = Some(retry_after);
                    missing.not_obtained = Some(why);
                }
            }
        }
        let recent = self.lookup.recent();
        let outcome = self.lookup.commit(&recent, &self.name, begun, read);
        if outcome.is_some() {
            self.leave(&recent);
        }
        Ok(outcome)
    }

    /// Obtains a credential, if the store itself answered that there is none.
    async fn obtain(&mut self, missing: &Missing) -> Obtained {
        if missing.reason == Absence::Disabled {
            return Obtained::Refused { retry_after: None };
        }
        if missing.is_stale {
            // Remembered without end, it would keep the host from issuance.
            let retry_after = Some(RETRY_DELAY);
            return Obtained::Refused { retry_after };
        }
        let record = missing.record.as_deref();
        let mut obtained = self.lookup.obtain.obtain(&self.name, record);
        // An answer that is there at once makes nobody wait.
        if let Some(obtained) = (&mut obtained).now_or_never() {
            return obtained;
        }
        let tenant = record.map(|record| &record.tenant);
        self.audience.obtaining(missing.reason, tenant);
        let _obtaining = InGauge::new(&self.lookup.counts.obtaining);
        obtained.await
    }

    /// Falls back on a stale record, if there is one.
    fn fail(&self, error: LookupError) -> Outcome<V> {
        let recent = self.lookup.recent();
        let outcome = self.lookup.stale_if_error(&self.name, error);
        self.leave(&recent);
        outcome
    }

    /// Lets no lookup join any more. `recent` is locked since the outcome was
    /// decided: a lookup that follows a later change starts a new load.
    fn leave(&self, _: &Recent) {
        self.remove();
    }
}

impl<V: Send + Sync + 'static, O> Load<V, O> {
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

impl<V: Send + Sync + 'static, O> Drop for Load<V, O> {
    fn drop(&mut self) {
        // Before the sender goes: no waiter may join a call that is broken off.
        self.remove();
    }
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Reads what the store has for a name, and obtains nothing. An absence is remembered
    /// for [`Lookup::not_stored`] alone: for a visitor, a certificate might be obtained.
    pub async fn stored(&self, name: &HostName) -> Outcome<V> {
        for _ in 0..MAX_READS {
            let begun = self.recent().begun();
            let read = match self.read(name, begun).await {
                Ok(Read::Missing(missing)) => {
                    let recent = self.recent();
                    match self.note_absence(&recent, name, begun, &missing) {
                        true => return Outcome::Absent(missing.reason),
                        false => continue,
                    }
                }
                Ok(found) => found,
                Err(error) => return self.stale_if_error(name, error),
            };
            let recent = self.recent();
            if let Some(outcome) = self.commit(&recent, name, begun, read) {
                return outcome;
            }
        }
        Outcome::Failed(LookupError::BrokenOff)
    }

    /// Notes that the store has nothing for a name. Returns false if the name must be read
    /// again.
    fn note_absence(
        &self,
        recent: &Recent,
        name: &HostName,
        begun: Begun,
        missing: &Missing,
    ) -> bool {
        let subjects = LoadSubjects {
            name,
            pattern: None,
            credentials: &[],
        };
        if recent.meanwhile(begun, &subjects) == Meanwhile::Overtaken {
            return false;
        }
        // A copy may lack what the store has.
        if !missing.is_stale {
            let note = Note::NotStored {
                reason: missing.reason,
                epoch: begun.epoch,
                fresh_until: self.freshness.absence(),
            };
            self.cache.insert_not_stored(name, note);
        }
        true
    }

    /// Asks the store and prepares its answer.
    async fn read(&self, name: &HostName, begun: Begun) -> Result<Read<V>, LookupError> {
        let asked = Instant::now();
        let answer = self.store.find(name).await;
        self.counts.asked(asked.elapsed(), answer.is_err());
        self.freshness.asked(&answer);
        let Answer {
            found, is_stale, ..
        } = answer?;
        let missing = |reason, record| {
            Ok(Read::Missing(Missing {
                reason,
                record,
                is_stale,
                holds: None,
                not_obtained: None,
            }))
        };
        match found {
            None => missing(Absence::NoHost, None),
            Some(found) if found.record.disabled => missing(Absence::Disabled, None),
            Some(found) if found.credentials.is_empty() => {
                missing(Absence::NoCredential, Some(Box::new(found.record)))
            }
            Some(found) => self
                .prepare(*found, begun)
                .map_err(|why| LookupError::Unusable(why.into())),
        }
    }

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
            Read::Missing(_) => (None, [].as_slice()),
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
            Read::Missing(missing) => {
                let note = Note::Absent {
                    reason: missing.reason,
                    not_obtained: missing.not_obtained.is_some(),
                    epoch: begun.epoch,
                    fresh_until: self.freshness.absence(),
                    ends: self.freshness.end_of(missing.holds),
                };
                let outcome = match missing.not_obtained {
                    Some(why) => Outcome::Failed(LookupError::NotObtained(why)),
                    None => Outcome::Absent(missing.reason),
                };
                (outcome, self.cache.insert_absence(name, note))
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
        let exact = self.cache.exact(name.as_str());
        let stale = exact.or_else(|| match self.cache.note(name.as_str()) {
            Some(Note::Absent { .. } | Note::NotStored { .. }) => None,
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

/// Reads of one load. Each further read means that a certificate was stored, or that a
/// change overtook the one before within the milliseconds that a read takes.
const MAX_READS: usize = 8;
