//! A store that does what a test says: delays, fails, counts.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex};
use std::time::Duration;

use sekisho_certs::credential::Secret;
use sekisho_certs::store::{
    BoxFuture, Change, ChangePage, LogId, LogPosition, Result, Subject, What,
};
use sekisho_certs::{
    Answer, Cached, CredentialId, FeedState, Follower, Found, HostName, HostPattern, HostRecord,
    KeyType, Lookup, LookupSettings, NeverObtain, Outcome, Protected, Published, Source, Store,
    StoreError, StoredCredential,
};
use sekisho_testkit::{Key, Pair, TestCa};
use tokio::sync::Semaphore;

pub(crate) const LOG: LogId = LogId([7; 16]);

#[derive(Debug)]
pub(crate) struct Scripted {
    hosts: Mutex<HashMap<String, Found>>,
    pub(crate) calls: AtomicUsize,
    pub(crate) failing: AtomicBool,
    /// Each call takes one permit; a test that holds them holds the calls.
    pub(crate) gate: Semaphore,
    /// Says true for every wildcard, like a store that can't list.
    blind: bool,
}

impl Scripted {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self::unshared())
    }

    fn unshared() -> Self {
        Self {
            hosts: Mutex::default(),
            calls: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            blind: false,
        }
    }

    pub(crate) fn held() -> Arc<Self> {
        Arc::new(Self {
            gate: Semaphore::new(0),
            ..Self::unshared()
        })
    }

    pub(crate) fn blind() -> Arc<Self> {
        Arc::new(Self {
            blind: true,
            ..Self::unshared()
        })
    }

    pub(crate) fn put(&self, found: Found) {
        self.hosts
            .lock()
            .unwrap()
            .insert(found.record.pattern.to_string(), found);
    }

    pub(crate) fn remove(&self, pattern: &str) {
        self.hosts.lock().unwrap().remove(pattern);
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    pub(crate) fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    fn answer(&self, name: &HostName) -> Answer {
        let hosts = self.hosts.lock().unwrap();
        if let Some(found) = hosts.get(name.as_str()) {
            return Answer::Found(Box::new(found.clone()));
        }
        let wildcard = name
            .wildcard()
            .and_then(|pattern| hosts.get(pattern.as_str()));
        wildcard.map_or(Answer::Absent, |found| {
            let below = |pattern: &String| {
                !pattern.starts_with('*') && pattern.split_once('.').map(|p| p.1) == name.parent()
            };
            let shadowed = self.blind || hosts.keys().any(below);
            Answer::Found(Box::new(Found {
                shadowed,
                ..found.clone()
            }))
        })
    }
}

impl Store for Scripted {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            // Read first, delayed after: a late answer tells an old state.
            let answer = self.answer(name);
            self.gate.acquire().await.expect("never closed").forget();
            if self.failing.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("the test says so".into()));
            }
            Ok(answer)
        })
    }
}

pub(crate) type Names = Lookup<String>;

/// A lookup whose values are the patterns.
pub(crate) fn lookup(store: &Arc<Scripted>) -> Arc<Names> {
    lookup_with(store, 8 << 20)
}

pub(crate) fn lookup_with(store: &Arc<Scripted>, memory: usize) -> Arc<Names> {
    let settings = LookupSettings {
        memory,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
    };
    let store: Arc<dyn Store> = store.clone();
    Lookup::new(store, &settings, Arc::new(NeverObtain), |host| {
        Ok(Published {
            value: host.record.pattern.to_string(),
            weight: 32,
        })
    })
}

/// The same with a feed that vouches for it, at change 0.
pub(crate) fn watched(store: &Arc<Scripted>) -> Arc<Names> {
    let lookup = lookup(store);
    lookup.restart(LogPosition {
        log: LOG,
        number: 0,
        mark: 0,
    });
    lookup.feed_is(FeedState::Healthy);
    lookup
}

/// Both steps.
pub(crate) async fn ask(lookup: &Arc<Names>, name: &str) -> Outcome<String> {
    let name = HostName::parse(name).unwrap();
    match lookup.cached(&name) {
        Cached::Hit(outcome) => outcome,
        Cached::InFlight(wait) => wait.await,
        Cached::Miss => lookup.load(&name).await,
    }
}

/// The pattern that served it, or what else came out.
pub(crate) async fn pattern(lookup: &Arc<Names>, name: &str) -> String {
    match ask(lookup, name).await {
        Outcome::Found(served) => served.value().clone(),
        other => format!("{other:?}"),
    }
}

pub(crate) fn change(number: u64, subject: Subject) -> ChangePage {
    change_of(LOG, number, subject)
}

pub(crate) fn change_of(log: LogId, number: u64, subject: Subject) -> ChangePage {
    let changes = vec![Change {
        number,
        subject,
        what: What::Put,
    }];
    ChangePage {
        log,
        last: number,
        gap: false,
        mark_before: Some(0),
        mark_last: Some(0),
        changes,
    }
}

pub(crate) fn host_change(number: u64, pattern: &str) -> ChangePage {
    change(number, Subject::Host(HostPattern::parse(pattern).unwrap()))
}

/// A host with one ECDSA credential of that id and version.
pub(crate) fn host(pattern: &str, id: u64) -> Found {
    host_version(pattern, id, 1)
}

pub(crate) fn host_version(pattern: &str, id: u64, version: u64) -> Found {
    let credential = credential(&PAIR, KeyType::Ecdsa, id, version);
    let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    record.references.set(KeyType::Ecdsa, Some(credential.id));
    record.version = version;
    Found {
        record,
        credentials: vec![credential],
        shadowed: false,
        fresh_for: None,
        source: Source::Store,
    }
}

pub(crate) fn credential(
    pair: &Pair,
    key_type: KeyType,
    id: u64,
    version: u64,
) -> StoredCredential {
    StoredCredential {
        id: CredentialId::from_u64(id),
        version,
        key_type,
        chain: pair.chain.clone(),
        key: Protected::Plain(Secret::new(pair.key_der().secret_der().to_vec())),
        not_before: 0,
        not_after: i64::MAX,
        renew_at: None,
    }
}

pub(crate) static CA: LazyLock<TestCa> = LazyLock::new(TestCa::new);
pub(crate) static PAIR: LazyLock<Pair> = LazyLock::new(|| CA.issue(&["a.test"], Key::P256));
