//! Servers with a level of their own making: one Redis, one catalog in memory,
//! and feeds that the test moves by hand.

mod faults;
mod keys;
mod outages;
mod races;
mod restored;
mod slow;
#[macro_use]
mod scripted;
mod contract;
mod served;

use std::path::Path;
use std::time::Instant;

use sekisho_testkit::RedisServer;

use self::scripted::Scripted;
use super::*;
use crate::redis::RedisUrl;
use sekisho_certs::clock::Clock;
use sekisho_certs::contract::fixture::{certificate, pattern, put_host, record, sealed};
use sekisho_certs::credential::{CredentialId, KeyType, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::memory::Memory;
use sekisho_certs::store::{
    BoxFuture, CatalogId, ChangeLog, Document, Expect, Lease, Store, Subject, Write,
};

/// One Redis and one catalog, that servers share.
struct Bench {
    redis: RedisServer,
    memory: Arc<Memory>,
}

impl Bench {
    fn new() -> Self {
        Self::on(RedisServer::start())
    }

    fn on(redis: RedisServer) -> Self {
        Self {
            redis,
            memory: Arc::new(Memory::new(Clock::System)),
        }
    }

    /// A server that has begun to follow the log, and may use the level.
    async fn server(&self) -> Server {
        let server = self.started(&PATIENT);
        server.follow().await;
        server.usable().await;
        server
    }

    fn started(&self, waits: &Waits) -> Server {
        self.started_with("redis://127.0.0.1:PORT", waits)
    }

    /// PORT stands for that of Redis.
    fn started_with(&self, url: &str, waits: &Waits) -> Server {
        let url = url.replace("PORT", &self.redis.port().to_string());
        let url = RedisUrl::parse_level(&url, Path::new("/")).unwrap();
        let level = Level::open(&url, &Handle::current()).unwrap();
        let catalog = Scripted::on(&self.memory);
        let store = Layered::new(level, catalog.clone(), waits.clone(), &Handle::current());
        Server { catalog, store }
    }

    /// Stores a host with a credential of that number, whatever was there.
    async fn put(&self, name: &str, number: u64) {
        let host = record(name, &[(KeyType::Ecdsa, CredentialId::from_u64(number))]);
        let put = Write::PutCredential(credential(number, number), Expect::Any);
        self.memory
            .write(Batch::unchecked(vec![put, put_host(host)]))
            .await
            .unwrap();
    }

    /// Puts another certificate and key in the place of a credential's.
    async fn replace(&self, number: u64, by: u64) {
        let put = Write::PutCredential(credential(number, by), Expect::Any);
        self.memory
            .write(Batch::unchecked(vec![put]))
            .await
            .unwrap();
    }

    async fn remove(&self, name: &str) {
        let remove = Write::RemoveHost(pattern(name), Expect::Any);
        self.memory
            .write(Batch::unchecked(vec![remove]))
            .await
            .unwrap();
    }

    /// How many keys Redis holds, the state not counted.
    fn entries(&self) -> usize {
        let keys = self.redis.cli(&["keys", "sekisho:*:[hc]:*"]);
        keys.lines().filter(|line| !line.is_empty()).count()
    }
}

struct Server {
    catalog: Arc<Scripted>,
    store: Layered,
}

impl Server {
    /// As a feed does: what changed since this server last looked.
    async fn follow(&self) -> Vec<Subject> {
        let Some(mark) = self.store.shared.marks.mark() else {
            self.store.id().await.unwrap();
            self.store.head().await.unwrap();
            return Vec::new();
        };
        let page = self.store.changes(mark.number, 1000).await.unwrap();
        page.changes.into_iter().map(|one| one.subject).collect()
    }

    /// Waits until the bridge has been there.
    async fn usable(&self) {
        until("the level is used", || self.counts().is_usable()).await;
    }

    async fn answer(&self, name: &str) -> Result<Answer<SealedBytes>> {
        self.store.find(&HostName::parse(name).unwrap()).await
    }

    async fn find(&self, name: &str) -> Option<Found<SealedBytes>> {
        let answer = self.answer(name).await.unwrap();
        answer.found.map(|found| *found)
    }

    /// The number that the certificate for this name was made of.
    async fn serves(&self, name: &str) -> Option<u64> {
        let found = self.find(name).await?;
        let chain = &found.credentials[0].chain;
        (1..100).find(|number| chain[0] == certificate(*number))
    }

    /// Looks once, and waits until the answer has come to the level, or not.
    async fn fill(&self, name: &str) {
        let ended = || -> u64 { Filled::ALL.map(|one| self.counts().fills(one)).iter().sum() };
        let before = ended();
        self.find(name).await.unwrap();
        until("the fill ends", || ended() > before).await;
    }

    fn counts(&self) -> Counts {
        self.store.counts()
    }

    fn hits(&self) -> u64 {
        self.counts().reads(Read::Hit)
    }
}

fn credential(number: u64, content: u64) -> StoredCredential<SealedBytes> {
    StoredCredential {
        id: CredentialId::from_u64(number),
        version: 0,
        key_type: KeyType::Ecdsa,
        chain: vec![certificate(content), certificate(0)],
        key: sealed(&content.to_be_bytes()),
        not_before: 0,
        not_after: 1,
        renew_at: None,
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// A busy machine must not make a level that is passed over.
const PATIENT: Waits = Waits {
    look: Duration::from_secs(20),
    tell: Duration::from_secs(20),
    background: Duration::from_secs(20),
};
