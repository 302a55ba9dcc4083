//! Store that answers, waits or fails as a test says, and counts its calls.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use sekisho_certs::store::{BoxFuture, Result};
use sekisho_certs::{Answer, Found, HostName, HostPattern, OpenKey, Store, StoreError};
use tokio::sync::Semaphore;

/// Store in memory, without a change log.
#[derive(Debug)]
pub struct Scripted {
    hosts: Mutex<HashMap<HostPattern, Found<OpenKey>>>,
    calls: AtomicUsize,
    failing: AtomicBool,
    stale: AtomicBool,
    /// Each call uses up a permit.
    permits: Semaphore,
}

impl Scripted {
    /// Makes a store that answers at once.
    #[must_use]
    pub fn new(hosts: impl IntoIterator<Item = Found<OpenKey>>) -> Self {
        let store = Self {
            hosts: Mutex::default(),
            calls: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            stale: AtomicBool::new(false),
            permits: Semaphore::new(UNHELD),
        };
        hosts.into_iter().for_each(|host| store.put(host));
        store
    }

    /// Adds or replaces a record. A wildcard counts as shadowed if it says so,
    /// or if an exact record stands below it.
    ///
    /// # Panics
    /// If another test thread panicked here.
    pub fn put(&self, found: Found<OpenKey>) {
        let pattern = found.record.pattern.clone();
        self.hosts.lock().expect("no panic").insert(pattern, found);
    }

    /// Removes a record.
    ///
    /// # Panics
    /// If another test thread panicked here.
    pub fn remove(&self, pattern: &str) {
        self.hosts.lock().expect("no panic").remove(pattern);
    }

    /// Returns how many calls there were.
    pub fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    /// Makes calls that end from now on fail, or answer again.
    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    /// Marks later answers as stale ones of a cache, or as fresh.
    pub fn answer_stale(&self, stale: bool) {
        self.stale.store(stale, Ordering::SeqCst);
    }

    /// Holds all later calls after they have read their answer: one that is
    /// released late returns an old state.
    pub fn hold(&self) {
        self.permits.forget_permits(usize::MAX);
    }

    /// Lets this many held calls end.
    pub fn release(&self, calls: usize) {
        self.permits.add_permits(calls);
    }

    /// Lets all calls end, now and later.
    pub fn unhold(&self) {
        self.permits.add_permits(UNHELD);
    }

    /// Tells whether a call would be held.
    pub fn is_held(&self) -> bool {
        self.permits.available_permits() == 0
    }

    fn answer(&self, name: &HostName) -> Answer<OpenKey> {
        let hosts = self.hosts.lock().expect("no panic");
        let wildcard = || hosts.get(name.wildcard()?.as_str());
        let Some(found) = hosts.get(name.as_str()).or_else(wildcard) else {
            return Answer::absent();
        };
        let mut found = found.clone();
        let parent = found.record.pattern.wildcard_parent();
        let below =
            |other: &HostPattern| other.wildcard_parent().is_none() && other.parent() == parent;
        found.shadowed |= parent.is_some() && hosts.keys().any(below);
        Answer::found(found)
    }
}

impl Store for Scripted {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            let answer = self.answer(name);
            self.permits.acquire().await.expect("never closed").forget();
            if self.failing.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("the test says so".into()));
            }
            Ok(Answer {
                is_stale: self.stale.load(Ordering::SeqCst),
                ..answer
            })
        })
    }
}

/// Permits of a store that holds no calls: more than any test has calls.
const UNHELD: usize = 1 << 40;
