//! A store that answers, waits or fails as a test wants, and counts.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use sekisho_certs::store::BoxFuture;
use sekisho_certs::{
    Answer, Clock, CredentialId, Found, HostName, HostPattern, HostRecord, KeyType, Protected,
    Secret, Site, Source, Store, StoreError, StoredCredential,
};
use sekisho_testkit::{Key, Pair};
use tokio::sync::Semaphore;

#[derive(Debug)]
pub struct Scripted {
    hosts: Mutex<HashMap<HostPattern, Found>>,
    /// All calls wait for a permit while `slow`.
    pub gate: Semaphore,
    pub slow: AtomicBool,
    pub failing: AtomicBool,
    pub calls: AtomicU64,
}

impl Scripted {
    pub fn new(hosts: impl IntoIterator<Item = Found>) -> Self {
        let scripted = Self {
            hosts: Mutex::default(),
            gate: Semaphore::new(0),
            slow: AtomicBool::new(false),
            failing: AtomicBool::new(false),
            calls: AtomicU64::new(0),
        };
        hosts.into_iter().for_each(|host| scripted.put(host));
        scripted
    }

    pub fn put(&self, found: Found) {
        let pattern = found.record.pattern.clone();
        self.hosts.lock().unwrap().insert(pattern, found);
    }

    pub fn remove(&self, pattern: &str) {
        let pattern = HostPattern::parse(pattern).unwrap();
        self.hosts.lock().unwrap().remove(&pattern);
    }

    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }
}

impl Store for Scripted {
    fn find<'a>(
        &'a self,
        name: &'a HostName,
    ) -> BoxFuture<'a, sekisho_certs::store::Result<Answer>> {
        Box::pin(async move {
            self.calls.fetch_add(1, Ordering::SeqCst);
            if self.slow.load(Ordering::SeqCst) {
                self.gate.acquire().await.expect("open").forget();
            }
            if self.failing.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("it was told to fail".into()));
            }
            let hosts = self.hosts.lock().unwrap();
            let found = hosts
                .get(name.as_str())
                .or_else(|| hosts.get(name.wildcard()?.as_str()));
            Ok(found.map_or(Answer::Absent, |found| {
                Answer::Found(Box::new(found.clone()))
            }))
        })
    }
}

/// A record of this pattern with these credentials.
pub fn host(pattern: &str, pairs: &[(&Pair, Key)]) -> Found {
    let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
    let mut credentials = Vec::new();
    for (pair, key) in pairs {
        let key_type = match key {
            Key::P256 | Key::P384 => KeyType::Ecdsa,
            Key::Ed25519 => KeyType::Ed25519,
            Key::Rsa2048 => KeyType::Rsa,
        };
        let id = CredentialId::fresh(&Clock::System);
        record.references.set(key_type, Some(id));
        credentials.push(StoredCredential {
            id,
            version: 1,
            key_type,
            chain: pair.chain.clone(),
            key: Protected::Plain(Secret::new(pair.key_der().secret_der().to_vec())),
            not_before: 0,
            not_after: i64::MAX,
            renew_at: None,
        });
    }
    record.site = Some(Site {
        format: 1,
        json: format!(r#"{{"redirect":"https://served.example/{{host}}/{pattern}"}}"#).into(),
    });
    Found {
        record,
        credentials,
        shadowed: true,
        fresh_for: None,
        source: Source::Store,
    }
}
