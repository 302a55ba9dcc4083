//! Read of a name: step 3 of a lookup. It reads, prepares, publishes and caches.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::oneshot::Sender;
use tokio::time::Instant;

use super::freshness::RETRY_DELAY;
use super::obtaining::Obtaining;
use super::singleflight::{Listed, Progress, Told};
use super::{Lookup, LookupError, Outcome};
use crate::cache::{Absence, EntryState, Note, Served, Tried, UNSERVED};
use crate::credential::CredentialId;
use crate::host::HostName;
use crate::loaded::{LoadedCredential, LoadedHost};
use crate::log::{Begun, LoadSubjects, Meanwhile, Recent};
use crate::seal::OpenKey;
use crate::store::{Answer, Found};

/// Read for all who wait for its call, whatever they want.
pub(super) struct Read<V: Send + Sync + 'static, O> {
    /// Before the sender: no waiter may join a call that is broken off.
    pub(super) listed: Listed<V>,
    pub(super) complete: Sender<Told<V>>,
    pub(super) observe: O,
}

/// Answer of the store, to be compared with the changes since it was asked.
enum Answered<V> {
    Found(Arc<Served<V>>, Vec<CredentialId>),
    Missing(Missing<V>),
}

/// Answer of the store that leaves nothing to serve over TLS.
pub(super) struct Missing<V> {
    pub(super) reason: Absence,
    /// The record without a credential, if there is one.
    pub(super) host: Option<Arc<LoadedHost>>,
    /// That record as it is served over plain HTTP; none if it can't be.
    bare: Option<Arc<Served<V>>>,
    /// When the store was asked.
    begun: Begun,
    /// Attempt to obtain a certificate.
    pub(super) tried: Tried,
    /// Time for which this is remembered; none for no such bound.
    pub(super) holds: Option<Duration>,
}

/// End of a read.
enum Landed<V> {
    /// The outcome, and the record without a credential for callers that serve one too.
    Ended(Outcome<V>, Option<Arc<Served<V>>>),
    /// Somebody wants a certificate, which was tried to obtain so often before.
    Wanted(Missing<V>, usize),
}

impl<V: Send + Sync + 'static, O: FnOnce(&Outcome<V>)> Read<V, O> {
    pub(super) async fn run(mut self) {
        let landed = self.read().await;
        let lookup = Arc::clone(&self.listed.lookup);
        let (answered, progress, bare) = match landed {
            Landed::Ended(outcome, bare) => (outcome.clone(), Progress::Ended(outcome), bare),
            Landed::Wanted(missing, before) => {
                let (absent, listed) = (Outcome::Absent(missing.reason), self.listed);
                let bare = missing.bare.clone();
                let obtaining = Obtaining {
                    listed,
                    missing,
                    before,
                };
                (absent, obtaining.begin(), bare)
            }
        };
        (self.observe)(match &progress {
            Progress::Ended(outcome) => outcome,
            Progress::Obtaining { .. } => &answered,
        });
        lookup.tell(self.complete, (progress, bare));
    }

    /// Reads until no change has overtaken the answer.
    async fn read(&mut self) -> Landed<V> {
        for _ in 0..MAX_READS {
            let begun = self.listed.lookup.recent().begun();
            match self.listed.lookup.find(&self.listed.name, begun).await {
                Ok(answered) => {
                    if let Some(landed) = self.land(begun, answered) {
                        return landed;
                    }
                }
                Err(error) => return self.fail(error),
            }
        }
        self.fail(LookupError::BrokenOff)
    }

    /// Compares an answer with the changes since the store was asked, caches it, and lets
    /// nobody join any more. Returns none if the name must be read again.
    fn land(&self, begun: Begun, answered: Answered<V>) -> Option<Landed<V>> {
        let Listed { lookup, name, .. } = &self.listed;
        let recent = lookup.recent();
        let (outcome, bare) = match answered {
            Answered::Found(served, credentials) => {
                let subjects = LoadSubjects {
                    name,
                    pattern: Some(&served.host().record.pattern),
                    credentials: &credentials,
                };
                match recent.meanwhile(begun, &subjects) {
                    Meanwhile::Overtaken => return None,
                    Meanwhile::Shadowed => served.state.shadowed.store(true, Ordering::Relaxed),
                    Meanwhile::Nothing => {}
                }
                if lookup.cache.insert(name, &served) {
                    lookup.raise_revision(&recent);
                }
                (Outcome::Found(served), None)
            }
            Answered::Missing(missing) => {
                if !lookup.note_absence(&recent, name, &missing) {
                    return None;
                }
                // After the note, which drops the records that contradict it.
                if let Some(bare) = &missing.bare
                    && lookup.cache.insert_record(name, bare)
                {
                    lookup.raise_revision(&recent);
                }
                if missing.tried == Tried::No
                    && let Some(before) = lookup.flights().obtain(name)
                {
                    return Some(Landed::Wanted(missing, before));
                }
                (Outcome::Absent(missing.reason), missing.bare)
            }
        };
        self.listed.leave(&recent);
        Some(Landed::Ended(outcome, bare))
    }

    /// Falls back on a stale record, if there is one.
    fn fail(&self, error: LookupError) -> Landed<V> {
        let Listed { lookup, name, .. } = &self.listed;
        let recent = lookup.recent();
        let outcome = lookup.stale_if_error(name, error);
        let bare = match &outcome {
            Outcome::Found(_) => None,
            Outcome::Absent(_) | Outcome::Failed(_) => lookup.stale_bare(name),
        };
        self.listed.leave(&recent);
        Landed::Ended(outcome, bare)
    }
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Tells the waiters of a call.
    pub(super) fn tell(&self, complete: Sender<Told<V>>, told: Told<V>) {
        if let (Progress::Ended(outcome), _) = &told {
            self.counts.loaded(outcome);
        }
        // An error tells that all waiters have left.
        let _ = complete.send(told);
    }

    /// Notes an absence. Returns false if a change overtook it: the name must be read again.
    pub(super) fn note_absence(
        &self,
        recent: &Recent,
        name: &HostName,
        missing: &Missing<V>,
    ) -> bool {
        let bare = missing.bare.as_ref();
        let subjects = LoadSubjects {
            name,
            pattern: bare.map(|bare| &bare.host().record.pattern),
            credentials: &[],
        };
        match recent.meanwhile(missing.begun, &subjects) {
            Meanwhile::Overtaken => return false,
            Meanwhile::Shadowed => {
                if let Some(bare) = bare {
                    bare.state.shadowed.store(true, Ordering::Relaxed);
                }
            }
            Meanwhile::Nothing => {}
        }
        if missing.tried == Tried::No && self.is_tried(name, missing.begun.epoch) {
            // The issuance ended during the read. Its note says more.
            return true;
        }
        let note = Note::Absent {
            reason: missing.reason,
            tried: missing.tried,
            epoch: missing.begun.epoch,
            fresh_until: self.freshness.absence(),
            ends: self.freshness.end_of(missing.holds),
            above: missing.above(),
        };
        if self.cache.insert_absence(name, missing.reason, note) {
            self.raise_revision(recent);
        }
        true
    }

    /// Returns whether a note that still holds says how an issuance ended.
    fn is_tried(&self, name: &HostName, now: u64) -> bool {
        match self.cache.note(name.as_str()) {
            Some(Note::Absent {
                tried,
                epoch,
                fresh_until,
                ends,
                ..
            }) => {
                tried != Tried::No
                    && epoch == now
                    && self.freshness.absence_holds(fresh_until, ends)
            }
            Some(Note::Alias { .. }) | None => false,
        }
    }

    /// Asks the store and prepares its answer.
    async fn find(&self, name: &HostName, begun: Begun) -> Result<Answered<V>, LookupError> {
        let asked = Instant::now();
        let answer = self.store.find(name).await;
        self.call_seconds.observe(asked.elapsed().as_secs_f64());
        if answer.is_err() {
            self.counts.calls_failed.inc();
        }
        self.freshness.asked(&answer);
        let Answer {
            found, is_stale, ..
        } = answer?;
        let missing = |reason, host, bare| {
            let is_open = reason != Absence::Disabled;
            let may_obtain = is_open && !is_stale && self.obtain.is_possible();
            Ok(Answered::Missing(Missing {
                reason,
                host,
                bare,
                begun,
                tried: if may_obtain {
                    Tried::No
                } else {
                    Tried::Refused
                },
                // Remembered without end, what a copy lacks would keep the host from issuance.
                holds: (is_open && is_stale).then_some(RETRY_DELAY),
            }))
        };
        match found {
            None => missing(Absence::NoHost, None, None),
            Some(found) if found.record.disabled => missing(Absence::Disabled, None, None),
            Some(found) if found.credentials.is_empty() => {
                let (host, bare) = self.prepare_bare(name, *found, begun);
                missing(Absence::NoCredential, Some(host), bare)
            }
            Some(found) => self
                .prepare(name, *found, begun)
                .map_err(|why| LookupError::Unusable(why.into())),
        }
    }

    /// Loads the credentials and publishes the record.
    fn prepare(
        &self,
        name: &HostName,
        found: Found<OpenKey>,
        begun: Begun,
    ) -> Result<Answered<V>, String> {
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
        let kept = (found.shadowed, found.fresh_for);
        Ok(Answered::Found(self.served(name, host, kept, begun)?, ids))
    }

    /// Publishes a record without a credential: plain HTTP serves it. If that fails, the
    /// answer is still no failure, since handshakes need only the record.
    fn prepare_bare(
        &self,
        name: &HostName,
        found: Found<OpenKey>,
        begun: Begun,
    ) -> (Arc<LoadedHost>, Option<Arc<Served<V>>>) {
        let host = Arc::new(LoadedHost {
            record: found.record,
            credentials: Vec::new(),
        });
        let kept = (found.shadowed, found.fresh_for);
        let served = self.served(name, Arc::clone(&host), kept, begun);
        let bare = served.inspect_err(|why| {
            tracing::debug!(%name, %why, "record without a credential can't be published");
        });
        (host, bare.ok())
    }

    /// Publishes a record, before the read is compared with the changes since it began.
    /// The store has told whether a wildcard is shadowed, and how long it is fresh.
    fn served(
        &self,
        name: &HostName,
        host: Arc<LoadedHost>,
        (shadowed, fresh_for): (bool, Option<Duration>),
        begun: Begun,
    ) -> Result<Arc<Served<V>>, String> {
        let published = (self.publish)(&host)?;
        let is_wildcard = host.record.pattern.wildcard_parent().is_some();
        let state = EntryState {
            shadowed: AtomicBool::new(shadowed),
            epoch: begun.epoch,
            fresh_until: AtomicU64::new(self.freshness.record(fresh_for)),
            read_for: is_wildcard.then(|| name.clone()),
            ..EntryState::default()
        };
        state.uses.note(self.freshness.now());
        let served = Served::new(host, published.value, published.weight, state);
        Ok(Arc::new(served))
    }

    /// Serves the cached record on when a load fails (stale-if-error, RFC 5861),
    /// except with a credential that is known to be replaced: keys that leaked
    /// are replaced.
    pub(super) fn stale_if_error(&self, name: &HostName, error: LookupError) -> Outcome<V> {
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
                tracing::debug!(%error, "serving a stale record");
                self.counts.stale.inc();
                Outcome::Found(stale)
            }
            None => Outcome::Failed(error),
        }
    }
}

impl<V> Missing<V> {
    /// Returns the version of the wildcard's record that plain HTTP serves; `u64::MAX` if
    /// it serves the name's own, and [`UNSERVED`] if it serves none.
    fn above(&self) -> u64 {
        let record = self.bare.as_ref().map(|bare| &bare.host().record);
        record.map_or(UNSERVED, |record| {
            let above = record.pattern.wildcard_parent();
            above.map_or(u64::MAX, |_| record.version)
        })
    }
}

/// Store calls of one read, and calls of [`Obtain`](crate::Obtain) for those who wait. Each
/// further one means that a change overtook the one before within the time that it takes,
/// or that what was obtained is not stored.
pub(super) const MAX_READS: usize = 8;
