//! Records, changes and lookups that the tests share.

use std::sync::{Arc, LazyLock};
use std::time::Duration;

use sekisho_certs::credential::Secret;
use sekisho_certs::store::{Change, ChangePage, LogId, LogPosition, Subject, What};
use sekisho_certs::{
    Cached, CredentialId, FeedState, Follower, Found, HostName, HostPattern, HostRecord, KeyType,
    Lookup, LookupSettings, NeverObtain, Obtain, OpenKey, Outcome, Published, Store,
    StoredCredential,
};
pub(crate) use sekisho_testkit::Scripted;
use sekisho_testkit::{Key, Pair, TestCa};
use tokio::task::yield_now;
use tokio::time::advance;

pub(crate) const LOG: LogId = LogId([7; 16]);

pub(crate) fn store() -> Arc<Scripted> {
    Arc::new(Scripted::new([]))
}

/// Makes a store whose calls are held.
pub(crate) fn held_store() -> Arc<Scripted> {
    let store = store();
    store.hold();
    store
}

pub(crate) type Names = Lookup<String>;

/// Makes a lookup whose values are the patterns.
pub(crate) fn lookup(store: &Arc<Scripted>) -> Arc<Names> {
    lookup_with(store, 8 << 20)
}

pub(crate) fn lookup_with(store: &Arc<Scripted>, memory: usize) -> Arc<Names> {
    obtaining(store, memory, Arc::new(NeverObtain))
}

/// Makes a lookup that obtains missing credentials.
pub(crate) fn obtaining(
    store: &Arc<Scripted>,
    memory: usize,
    obtain: Arc<dyn Obtain>,
) -> Arc<Names> {
    let settings = LookupSettings {
        memory,
        fresh: Duration::from_secs(60),
        absent: Duration::from_secs(5),
    };
    let store: Arc<dyn Store> = store.clone();
    Lookup::new(store, &settings, obtain, |host| {
        Ok(Published {
            value: host.record.pattern.to_string(),
            weight: 32,
        })
    })
}

/// Makes a lookup with a feed that vouches for it, at change 0.
pub(crate) fn watched(store: &Arc<Scripted>) -> Arc<Names> {
    let lookup = lookup(store);
    watch(&lookup);
    lookup
}

/// Begins a feed that vouches for the lookup, at change 0.
pub(crate) fn watch(lookup: &Names) {
    lookup.restart(LogPosition {
        log: LOG,
        number: 0,
        mark: 0,
    });
    lookup.feed_is(FeedState::Healthy);
}

/// Lets time pass, which is paused.
pub(crate) async fn pass(seconds: u64) {
    advance(Duration::from_secs(seconds)).await;
}

/// Lets the loads in flight go on as far as they come.
pub(crate) async fn run_loads() {
    for _ in 0..10 {
        yield_now().await;
    }
}

/// Does both steps of a lookup.
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

/// Makes a host with one ECDSA credential of that id and version.
pub(crate) fn host(pattern: &str, id: u64) -> Found<OpenKey> {
    host_version(pattern, id, 1)
}

pub(crate) fn host_version(pattern: &str, id: u64, version: u64) -> Found<OpenKey> {
    let credential = credential(&PAIR, KeyType::Ecdsa, id, version);
    let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    record.references.set(KeyType::Ecdsa, Some(credential.id));
    record.version = version;
    Found {
        record,
        credentials: vec![credential],
        shadowed: false,
        fresh_for: None,
    }
}

/// Makes a host without a credential.
pub(crate) fn bare(pattern: &str) -> Found<OpenKey> {
    bare_version(pattern, 1)
}

pub(crate) fn bare_version(pattern: &str, version: u64) -> Found<OpenKey> {
    let mut bare = host_version(pattern, 1, version);
    bare.record.references = Default::default();
    bare.credentials.clear();
    bare
}

pub(crate) fn credential(
    pair: &Pair,
    key_type: KeyType,
    id: u64,
    version: u64,
) -> StoredCredential<OpenKey> {
    StoredCredential {
        id: CredentialId::from_u64(id),
        version,
        key_type,
        chain: pair.chain.clone(),
        key: OpenKey::unproved(Secret::new(pair.key_der().secret_der().to_vec())),
        not_before: 0,
        not_after: i64::MAX,
        origin: None,
    }
}

pub(crate) static CA: LazyLock<TestCa> = LazyLock::new(TestCa::new);
pub(crate) static PAIR: LazyLock<Pair> = LazyLock::new(|| CA.issue(&["a.test"], Key::P256));
