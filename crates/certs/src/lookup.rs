//! From a name to what to serve, through cache, store and issuance.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use foldhash::quality::RandomState;

use crate::cache::{Absence, Cache, Note, Served};
use crate::host::HostName;
use crate::loaded::LoadedHost;
use crate::loaded::intern::Interner;
use crate::log::Recent;
use crate::obtain::Obtain;
use crate::store::{Store, StoreError};
pub use counts::{CALL_BOUNDS, Counts, LookupStats};
use flight::Flight;
pub use flight::Wait;
pub use freshness::FeedState;
use freshness::{Age, Freshness};
use refresh::Refreshes;

mod apply;
mod counts;
mod flight;
mod freshness;
mod load;
mod refresh;

/// Answers names with what the server made of their records.
///
/// Two steps, so that a caller can put a limit between them: [`Self::cached`]
/// neither waits nor calls the store, [`Self::load`] may do both. Order of an
/// answer:
///
/// 1. the cache: the exact name, else what was noted about this name, else a
///    wildcard that is known to answer everything below itself;
/// 2. the load that is in flight for this name;
/// 3. the store: the exact pattern, else the wildcard above, with credentials;
/// 4. issuance, where the host may.
///
/// `V` is what `publish` makes of a record, once per fill.
///
/// ```
/// use std::{sync::Arc, time::Duration};
///
/// use sekisho_certs::store::memory::Memory;
/// use sekisho_certs::{
///     Cached, Clock, HostName, Lookup, LookupSettings, NeverObtain, Outcome, Published,
/// };
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let store = Arc::new(Memory::new(Clock::System));
/// let settings = LookupSettings {
///     memory: 64 << 20,
///     fresh: Duration::from_secs(60),
///     absent: Duration::from_secs(5),
/// };
/// let lookup = Lookup::new(store, &settings, Arc::new(NeverObtain), |host| {
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
    /// Held while a change is applied and while a load's result is checked
    /// against the changes and cached; never across a wait.
    recent: Mutex<Recent>,
    epoch: AtomicU64,
    tick: AtomicU64,
    counts: Counts,
}

/// Turns a loaded record into what the server keeps for it.
pub type Publish<V> = dyn Fn(&Arc<LoadedHost>) -> Result<Published<V>, String> + Send + Sync;

type Flights<V> = HashMap<HostName, Arc<Flight<V>>, RandomState>;

/// What the server made of a record.
#[derive(Debug)]
pub struct Published<V> {
    /// The thing itself.
    pub value: V,
    /// Bytes of memory that it adds to those of the record.
    pub weight: usize,
}

/// The knobs of a lookup.
#[derive(Clone, Debug)]
pub struct LookupSettings {
    /// The bound of the cache, bytes.
    pub memory: usize,
    /// How long a record needs no second look while no change feed vouches
    /// for it.
    pub fresh: Duration,
    /// The same for absences.
    pub absent: Duration,
}

/// How a lookup ended. Cheap to clone: all who wait share it.
pub enum Outcome<V> {
    /// Serve this.
    Found(Arc<Served<V>>),
    /// The store answered, and there is nothing to serve.
    Absent(Absence),
    /// Nobody knows.
    Failed(LookupError),
}

/// What [`Lookup::cached`] knows without asking.
pub enum Cached<V> {
    /// The answer.
    Hit(Outcome<V>),
    /// Somebody is asking; wait with them.
    InFlight(Wait<V>),
    /// The store must be asked.
    Miss,
}

/// Why nobody knows.
#[derive(Clone, Debug, thiserror::Error)]
pub enum LookupError {
    /// The store gave no answer.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The store's answer can't be served: a bad pair, a bad site.
    #[error("{0}")]
    Unusable(Arc<str>),
    /// Issuance was allowed but did not work.
    #[error("no certificate could be obtained: {0}")]
    NotObtained(Arc<str>),
    /// Whoever asked could wait no longer; the load goes on.
    #[error("there was no answer in time")]
    Late,
    /// What was read kept changing, or the load's task ended early.
    #[error("the load was broken off")]
    BrokenOff,
}

impl<V: Send + Sync + 'static> Lookup<V> {
    /// Without a change feed until one tells it of changes ([`Follower`](crate::feed::Follower)).
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
            tick: AtomicU64::new(0),
            counts: Counts::default(),
        })
    }

    /// Steps 1 and 2, without waiting and without a call to the store.
    pub fn cached(self: &Arc<Self>, name: &HostName) -> Cached<V> {
        if let Some((outcome, age)) = self.remembered(name) {
            if let (Age::Refresh, Outcome::Found(served)) = (age, &outcome) {
                self.refresh(name, served);
            }
            self.counts.hit(&outcome);
            return Cached::Hit(outcome);
        }
        match self.flights().get(name) {
            Some(flight) => {
                self.counts.join();
                Cached::InFlight(Wait::on(Arc::clone(flight)))
            }
            None => Cached::Miss,
        }
    }

    /// Steps 3 and 4, or joining whoever is at them already. The load is a
    /// task of its own on the current runtime; dropping the wait stops nothing.
    pub fn load(self: &Arc<Self>, name: &HostName) -> Wait<V> {
        self.load_with(name, |_| ())
    }

    /// The same. `settle` stays with the load, whoever waits or leaves: it is
    /// called with the outcome before those who wait get it. Where this call
    /// starts no load, or the load's task ends early, it is dropped uncalled.
    pub fn load_with(
        self: &Arc<Self>,
        name: &HostName,
        settle: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Wait<V> {
        let flights = self.flights();
        if let Some(flight) = flights.get(name) {
            return Wait::on(Arc::clone(flight));
        }
        // A load may have landed since the caller saw the miss.
        if let Some((outcome, _)) = self.remembered(name) {
            return Wait::known(outcome);
        }
        Wait::on(self.launch(flights, name, settle))
    }

    /// Moves whenever something that was served may be served otherwise.
    pub fn position(&self) -> u64 {
        self.tick.load(Ordering::Acquire)
    }

    /// Whether what was found at `position` still needs no new lookup.
    pub fn is_current(&self, served: &Served<V>, position: u64) -> bool {
        position == self.position()
            && self
                .freshness
                .age(served.state.fresh_until.load(Ordering::Relaxed))
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
            counts: self.counts.clone(),
        }
    }

    /// Step 1: whatever is remembered and needs no new read.
    fn remembered(&self, name: &HostName) -> Option<(Outcome<V>, Age)> {
        let key = name.as_str();
        if let Some(served) = self.cache.exact(key) {
            return self.usable(served);
        }
        match self.cache.note(key) {
            Some(Note::Absent {
                reason,
                epoch,
                fresh_until,
            }) => {
                let known = epoch == self.epoch() && self.freshness.absence_holds(fresh_until);
                return known.then_some((Outcome::Absent(reason), Age::Fresh));
            }
            Some(Note::Alias { epoch, fresh_until }) => {
                return self.usable_as(self.cache.wildcard(key)?, epoch, fresh_until);
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

    /// What was read in that epoch and was fresh until then: an alias of a
    /// wildcard ages by itself.
    fn usable_as(
        &self,
        served: Arc<Served<V>>,
        epoch: u64,
        fresh_until: u64,
    ) -> Option<(Outcome<V>, Age)> {
        if served.host().is_superseded() {
            return None;
        }
        let age = if self.freshness.is_in_respite(&served.state.respite_until) {
            Age::Fresh
        } else if epoch != self.epoch() {
            Age::Stale
        } else {
            match self.freshness.age(fresh_until) {
                // Reading first would most likely end with this too, and all
                // who come meanwhile would wait for the store's deadline.
                Age::Stale if self.counts.unavailable() => Age::Refresh,
                age => age,
            }
        };
        match age {
            Age::Stale => None,
            age => Some((Outcome::Found(served), age)),
        }
    }

    /// Reads again in the background, unless a load is under way already or
    /// the share of background loads is used up.
    fn refresh(self: &Arc<Self>, name: &HostName, served: &Arc<Served<V>>) {
        let Some(refresh) = self.refreshes.begin(served) else {
            return;
        };
        let flights = self.flights();
        if !flights.contains_key(name) {
            self.launch(flights, name, |_| drop(refresh));
        }
    }

    /// Starts a load and gives its flight.
    fn launch(
        self: &Arc<Self>,
        mut flights: MutexGuard<'_, Flights<V>>,
        name: &HostName,
        settle: impl FnOnce(&Outcome<V>) + Send + 'static,
    ) -> Arc<Flight<V>> {
        let flight = Arc::new(Flight::new());
        flights.insert(name.clone(), Arc::clone(&flight));
        // A runtime that ends drops the task at once, and that lands it.
        drop(flights);
        tokio::spawn(load::Leader::new(self, name, Arc::clone(&flight)).run(settle));
        flight
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

impl<V> Clone for Outcome<V> {
    fn clone(&self) -> Self {
        match self {
            Self::Found(served) => Self::Found(Arc::clone(served)),
            Self::Absent(reason) => Self::Absent(*reason),
            Self::Failed(error) => Self::Failed(error.clone()),
        }
    }
}

impl<V> fmt::Debug for Outcome<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Found(served) => write!(f, "Found({})", served.host().record.pattern),
            Self::Absent(reason) => write!(f, "Absent({reason:?})"),
            Self::Failed(error) => write!(f, "Failed({error})"),
        }
    }
}
