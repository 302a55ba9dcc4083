//! Lookup: from a name to what is served, through cache, store and issuance.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::histogram::Histogram;

use crate::cache::{Cache, Note, Published, Served, Tried};
use crate::host::HostName;
use crate::loaded::LoadedHost;
use crate::loaded::intern::Interner;
use crate::log::Recent;
use crate::obtain::Obtain;
use crate::store::Store;
use counts::CALL_BOUNDS;
pub use counts::{Counts, LookupStats};
use freshness::{Age, Freshness};
pub use outcome::{LookupError, Outcome};
use read::Read;
use refresh::Refreshes;
pub use singleflight::{AnyWait, Progress, Wait};
use singleflight::{CERTIFICATE, Flights, Listed, STORED, Wanted};

mod apply;
mod counts;
mod freshness;
mod hand_over;
mod obtaining;
mod outcome;
mod plain;
mod read;
mod refresh;
mod singleflight;

/// Lookup of names, answered with what the server made of their records.
///
/// A lookup is made by two calls, and a caller can put a limit between them.
/// [`Self::cached`] neither waits nor calls the store; [`Self::load`] may do
/// both. The order of an answer:
///
/// 1. the cache: the exact name, else the note about this name, else a wildcard
///    that is known to answer every name below it;
/// 2. what is in flight for this name: its read, or the issuance of its certificate;
/// 3. a read of the store: the exact pattern, else the wildcard above, with credentials;
/// 4. issuance, where the host may. What it has stored is read by step 3.
///
/// A name has one read in flight, for all callers. [`Self::cached_stored`], [`Self::read`]
/// and, for plain HTTP, [`Self::read_any`] are for callers that must not issue: step 3 is
/// their last. A read leads to step 4 if a caller that waits for it wants a certificate.
///
/// `V` is what `publish` makes of a record, once per read that finds one. A read
/// makes at most 8 store calls: an answer that a change overtook is thrown away. A catalog
/// that answers from an older state than was seen is asked up to three times for each.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use sekisho_certs::store::{BoxFuture, Result};
/// use sekisho_certs::{
///     Answer, Cached, HostName, Lookup, LookupSettings, NeverObtain, OpenKey, Outcome,
///     Published, Store,
/// };
///
/// /// A store without hosts.
/// #[derive(Debug)]
/// struct Empty;
///
/// impl Store for Empty {
///     fn find<'a>(&'a self, _: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
///         Box::pin(async { Ok(Answer::absent()) })
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let settings = LookupSettings {
///     memory: 64 << 20,
///     fresh: Duration::from_secs(60),
///     absent: Duration::from_secs(5),
/// };
/// let lookup = Lookup::new(Arc::new(Empty), &settings, Arc::new(NeverObtain), |host| {
///     let value = host.record.pattern.to_string();
///     Ok(Published { value, weight: 64 })
/// });
///
/// let name = HostName::parse("www.example.com").unwrap();
/// assert!(matches!(lookup.cached(&name), Cached::Miss));
/// assert!(matches!(lookup.load(&name).await, Outcome::Absent(_)));
/// assert!(matches!(lookup.cached(&name), Cached::Hit(Outcome::Absent(_))));
/// # }
/// ```
pub struct Lookup<V> {
    cache: Cache<V>,
    flights: Mutex<Flights<V>>,
    store: Arc<dyn Store>,
    obtain: Arc<dyn Obtain>,
    publish: Box<Publish<V>>,
    interner: Arc<Interner>,
    freshness: Freshness,
    refreshes: Refreshes,
    /// Locked while a change is applied, and while a load's result is compared
    /// with the changes and cached; never across an await. Taken before `flights`.
    recent: Mutex<Recent>,
    epoch: AtomicU64,
    revision: AtomicU64,
    counts: Counts,
    /// Time of store calls. Its lock is taken once per store call.
    call_seconds: Histogram,
}

/// Turns a loaded record into what the server keeps for it.
pub type Publish<V> = dyn Fn(&Arc<LoadedHost>) -> Result<Published<V>, String> + Send + Sync;

/// Settings of a lookup.
#[derive(Clone, Debug)]
pub struct LookupSettings {
    /// The bound of the cache, bytes.
    pub memory: usize,
    /// How long a record is served without a new read while no healthy change
    /// feed vouches for it.
    pub fresh: Duration,
    /// How long an absence is believed without a new read, in the same case.
    pub absent: Duration,
}

/// Result of [`Lookup::cached`].
pub enum Cached<V> {
    /// The answer, from the cache.
    Hit(Outcome<V>),
    /// The answer is in flight; wait for it.
    InFlight(Wait<V>),
    /// The store must be asked.
    Miss,
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Makes a lookup that has no change feed until it is given to one as a
    /// [`Follower`](crate::store::Follower).
    pub fn new(
        store: Arc<dyn Store>,
        settings: &LookupSettings,
        obtain: Arc<dyn Obtain>,
        publish: impl Fn(&Arc<LoadedHost>) -> Result<Published<V>, String> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            cache: Cache::new(settings.memory),
            flights: Mutex::default(),
            store,
            obtain,
            publish: Box::new(publish),
            interner: Arc::default(),
            freshness: Freshness::new(settings.fresh, settings.absent),
            refreshes: Refreshes::new(),
            recent: Mutex::default(),
            epoch: AtomicU64::new(0),
            revision: AtomicU64::new(0),
            counts: Counts::default(),
            call_seconds: Histogram::new(CALL_BOUNDS),
        })
    }

    /// Does steps 1 and 2. The caller neither waits nor calls the store; an old record
    /// may be read again in the background.
    pub fn cached(self: &Arc<Self>, name: &HostName) -> Cached<V> {
        self.cached_for(name, CERTIFICATE)
    }

    /// Does steps 1 and 2 for a caller that must not issue.
    pub fn cached_stored(self: &Arc<Self>, name: &HostName) -> Cached<V> {
        self.cached_for(name, STORED)
    }

    /// Does step 1 for a caller that must not issue.
    pub fn hit_stored(self: &Arc<Self>, name: &HostName) -> Option<Outcome<V>> {
        self.hit(name, STORED)
    }

    /// Does steps 3 and 4, or joins the flight that does. Each is a task of its own on the
    /// current runtime; dropping the returned future stops nothing.
    pub fn load(self: &Arc<Self>, name: &HostName) -> Wait<V> {
        self.load_with(name, |_| ())
    }

    /// Loads like [`Self::load`]. `observe` is called with the outcome before
    /// any waiter has it, even if all waiters have left. If a certificate must
    /// be waited for, it is called before that with the absence that the store
    /// answered, and no more. If this call starts no read, or the read's task
    /// ends early, `observe` is dropped uncalled.
    pub fn load_with(
        self: &Arc<Self>,
        name: &HostName,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Wait<V> {
        self.begin(name, CERTIFICATE, observe)
    }

    /// Does step 3, or joins the read in flight, for a caller that must not issue.
    /// `observe` is called as by [`Self::load_with`].
    pub fn read(
        self: &Arc<Self>,
        name: &HostName,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Wait<V> {
        self.begin(name, STORED, observe)
    }

    /// Returns the lookup's revision: a counter that grows whenever something
    /// that was served may be served otherwise. No number of the change log.
    pub fn revision(&self) -> u64 {
        self.revision.load(Ordering::Acquire)
    }

    /// Tells whether a record found at `revision` needs no new lookup: the
    /// revision is the same, and the record is fresh.
    pub fn is_current(&self, served: &Served<V>, revision: u64) -> bool {
        let fresh_until = &served.state.fresh_until;
        revision == self.revision()
            && self
                .freshness
                .age(fresh_until.load(Ordering::Relaxed), self.freshness.now())
                == Age::Fresh
    }

    /// Figures for metrics.
    pub fn stats(&self) -> LookupStats {
        let recent = self.recent();
        LookupStats {
            usage: self.cache.usage(),
            credentials: self.interner.len(),
            in_flight: self.flights().len(),
            position: recent.number,
            feed: self.freshness.feed(),
            store_available: self.freshness.store_available(),
            counts: self.counts.clone(),
        }
    }

    fn cached_for(self: &Arc<Self>, name: &HostName, wanted: Wanted) -> Cached<V> {
        if let Some(outcome) = self.hit(name, wanted) {
            return Cached::Hit(outcome);
        }
        match self.flights().join(name, wanted) {
            Some(call) => {
                self.counts.joined.inc();
                Cached::InFlight(Wait::on(call))
            }
            None => Cached::Miss,
        }
    }

    fn hit(self: &Arc<Self>, name: &HostName, wanted: Wanted) -> Option<Outcome<V>> {
        let (outcome, age) = self.remembered(name, wanted)?;
        if let (Age::Refresh, Outcome::Found(served)) = (age, &outcome) {
            self.refresh(name, wanted, served);
        }
        self.counts.hit(&outcome);
        Some(outcome)
    }

    /// Does step 1: returns what is cached and needs no new read first.
    fn remembered(&self, name: &HostName, wanted: Wanted) -> Option<(Outcome<V>, Age)> {
        let key = name.as_str();
        if let Some(served) = self.cache.exact(key) {
            return self.usable(served);
        }
        match self.cache.note(key) {
            Some(Note::Absent {
                reason,
                tried,
                epoch,
                fresh_until,
                ends,
                ..
            }) => {
                let holds = self.freshness.absence_holds(fresh_until, ends);
                let outcome = match tried {
                    Tried::No if wanted.is_some() => return None,
                    Tried::Failed if wanted.is_some() => Outcome::Failed(LookupError::NotDue),
                    Tried::No | Tried::Refused | Tried::Failed => Outcome::Absent(reason),
                };
                return (epoch == self.epoch() && holds).then_some((outcome, Age::Fresh));
            }
            Some(Note::Alias {
                epoch,
                fresh_until,
                version,
            }) => {
                let wildcard = self.cache.wildcard(key)?;
                let is_meant = wildcard.host().record.version == version;
                return is_meant.then(|| self.usable_as(wildcard, epoch, fresh_until))?;
            }
            None => {}
        }
        let wildcard = self.cache.wildcard(key)?;
        let shadowed = wildcard.state.shadowed.load(Ordering::Relaxed);
        if shadowed {
            None
        } else {
            self.usable(wildcard)
        }
    }

    fn usable(&self, served: Arc<Served<V>>) -> Option<(Outcome<V>, Age)> {
        let (epoch, fresh_until) = (served.state.epoch, &served.state.fresh_until);
        let fresh_until = fresh_until.load(Ordering::Relaxed);
        self.usable_as(served, epoch, fresh_until)
    }

    /// Judges a record by the epoch and freshness of what leads to it: an alias
    /// of a wildcard ages by itself.
    fn usable_as(
        &self,
        served: Arc<Served<V>>,
        epoch: u64,
        fresh_until: u64,
    ) -> Option<(Outcome<V>, Age)> {
        if served.host().is_superseded() {
            return None;
        }
        let now = self.freshness.now();
        let age = if now < served.state.retry_at.load(Ordering::Relaxed) {
            Age::Fresh
        } else if epoch != self.epoch() {
            Age::Stale
        } else {
            self.freshness.age(fresh_until, now)
        };
        (age != Age::Stale).then(|| {
            served.state.uses.note(now);
            (Outcome::Found(served), age)
        })
    }

    /// Reads again in the background, unless a flight has begun already or all
    /// permits of background loads are taken.
    fn refresh(self: &Arc<Self>, name: &HostName, wanted: Wanted, served: &Arc<Served<V>>) {
        if let Some(refresh) = self.refreshes.begin(served) {
            drop(self.fly(self.flights(), name, wanted, |_| drop(refresh)));
        }
    }

    fn begin(
        self: &Arc<Self>,
        name: &HostName,
        wanted: Wanted,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Wait<V> {
        let flights = self.flights();
        // A flight may have ended since the caller saw the miss.
        match self.remembered(name, wanted) {
            Some((outcome, _)) => Wait::known(outcome),
            None => self.fly(flights, name, wanted, observe),
        }
    }

    /// Joins what is in flight for a name, else starts a read.
    fn fly(
        self: &Arc<Self>,
        mut flights: MutexGuard<'_, Flights<V>>,
        name: &HostName,
        wanted: Wanted,
        observe: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Wait<V> {
        if let Some(call) = flights.join(name, wanted) {
            drop(flights);
            return Wait::on(call);
        }
        let (complete, call) = flights.read(name, wanted);
        // Unlocked first: a runtime that is shutting down drops the task at once,
        // and its drop takes this lock.
        drop(flights);
        let listed = Listed {
            lookup: Arc::clone(self),
            name: name.clone(),
            call: call.clone(),
        };
        let read = Read {
            listed,
            complete,
            observe,
        };
        tokio::spawn(read.run());
        Wait::on(call)
    }

    fn epoch(&self) -> u64 {
        self.epoch.load(Ordering::Acquire)
    }

    fn flights(&self) -> MutexGuard<'_, Flights<V>> {
        self.flights.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
