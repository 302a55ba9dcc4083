//! Servers of the test's own making: one Redis, one catalog in memory,
//! and feeds that the test moves by hand.

mod faults;
mod keys;
mod outages;
mod races;
mod restored;
mod slow;
#[macro_use]
mod scripted;
mod served;

use std::path::Path;
use std::time::Instant;

use sekisho_testkit::RedisServer;

use self::scripted::Scripted;
use super::*;
use crate::redis::RedisUrl;
use crate::tiers::Tiers;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, KeyType, Secret, StoredCredential};
use sekisho_certs::feed::Feed;
use sekisho_certs::host::HostPattern;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::{Batch, KeyRing, MasterKey, OpenKey, Sealer};
use sekisho_certs::store::{
    Answer, CatalogId, ChangeLog, Document, Precondition, Result, Store, Write,
};
use sekisho_testkit::Memory;
use sekisho_testkit::contract::fixture::{certificate, pattern, plain, put_host, record};

/// A Redis and a catalog that servers share.
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

    /// A server that has begun to follow the log, and may use Redis.
    async fn server(&self) -> Server {
        self.server_with(KeyRing::new(master())).await
    }

    async fn server_with(&self, ring: KeyRing) -> Server {
        let server = self.start("redis://127.0.0.1:PORT", &PATIENT, ring).await;
        server.follow().await;
        server.usable().await;
        server
    }

    async fn started(&self, waits: &Waits) -> Server {
        self.started_with("redis://127.0.0.1:PORT", waits).await
    }

    async fn started_with(&self, url: &str, waits: &Waits) -> Server {
        self.start(url, waits, KeyRing::new(master())).await
    }

    /// PORT stands for that of Redis.
    async fn start(&self, url: &str, waits: &Waits, ring: KeyRing) -> Server {
        self.sealer().await;
        let url = url.replace("PORT", &self.redis.port().to_string());
        let url = RedisUrl::parse_cache(&url, Path::new("/")).unwrap();
        let runtime = Handle::current();
        let redis = CacheServer::open(&url, &runtime).unwrap();
        let catalog = Scripted::on(&self.memory);
        let sealer = Sealer::open(catalog.clone(), ring).await.unwrap();
        let seen = Arc::clone(sealer.seen());
        let timeouts = Timeouts {
            get: waits.get,
            background: waits.background,
        };
        let cache = RedisCache::new(redis, catalog.clone(), seen.clone(), timeouts, &runtime);
        let cache = Arc::new(cache);
        let feed = Feed::new(catalog.clone(), seen);
        let feed = feed.first([cache.clone() as Arc<dyn Follower>], waits.advance);
        let mut tiers = Tiers::catalog(sealer.clone()).redis(Some(cache.clone()));
        tiers.deadline = Duration::from_secs(20);
        Server {
            catalog,
            sealer,
            cache,
            tiers: Arc::new(tiers),
            feed: feed.into(),
        }
    }

    /// Writes to the catalog from elsewhere.
    async fn sealer(&self) -> Sealer {
        let catalog = Arc::clone(&self.memory) as Arc<dyn Catalog>;
        Sealer::create(
            catalog,
            KeyRing::new(master()).with(MasterKey::new(&[6; 32])),
        )
        .await
        .unwrap()
    }

    async fn write(&self, writes: Vec<Write<Secret>>) {
        self.sealer().await.write(writes).await.unwrap();
    }

    /// Stores a host with a credential of that number, whatever was there.
    async fn put(&self, name: &str, number: u64) {
        let host = record(name, &[(KeyType::Ecdsa, CredentialId::from_u64(number))]);
        let put = Write::PutCredential(credential(number, number), Precondition::Any);
        self.write(vec![put, put_host(host)]).await;
    }

    /// Puts another certificate and key in the place of a credential's.
    async fn replace(&self, number: u64, by: u64) {
        let put = Write::PutCredential(credential(number, by), Precondition::Any);
        self.write(vec![put]).await;
    }

    async fn remove(&self, name: &str) {
        self.write(vec![Write::RemoveHost(pattern(name), Precondition::Any)])
            .await;
    }

    /// Returns what the catalog has for a name.
    async fn sealed(&self, name: &str) -> Box<Found<SealedBytes>> {
        let name = HostName::parse(name).unwrap();
        let answer = Catalog::find(self.memory.as_ref(), &name).await.unwrap();
        answer.found.expect("it is there")
    }

    /// How many keys Redis holds, the state not counted.
    fn entries(&self) -> usize {
        let keys = self.redis.cli(&["keys", "sekisho:*:[hc]:*"]);
        keys.lines().filter(|line| !line.is_empty()).count()
    }
}

struct Server {
    catalog: Arc<Scripted>,
    sealer: Sealer,
    cache: Arc<RedisCache>,
    tiers: Arc<Tiers>,
    feed: tokio::sync::Mutex<Feed>,
}

impl Server {
    /// Has the feed read what changed since it last looked.
    async fn follow(&self) {
        self.feed.lock().await.read().await.unwrap();
    }

    /// The feed notices that the catalog is out of reach.
    async fn follow_in_vain(&self) {
        self.feed.lock().await.read().await.unwrap_err();
    }

    /// Waits until the resync has been there.
    async fn usable(&self) {
        until("Redis is used", || self.counts().is_usable()).await;
    }

    /// Returns the position by which a lookup that begins now may read and fill Redis.
    fn position(&self) -> Option<CachePosition> {
        self.cache.position(self.sealer.seen().note())
    }

    async fn answer(&self, name: &str) -> Result<Answer<OpenKey>> {
        self.tiers.find(&HostName::parse(name).unwrap()).await
    }

    async fn find(&self, name: &str) -> Option<Found<OpenKey>> {
        let answer = self.answer(name).await.unwrap();
        answer.found.map(|found| *found)
    }

    /// The number that the certificate for this name was made of.
    async fn serves(&self, name: &str) -> Option<u64> {
        let found = self.find(name).await?;
        let chain = &found.credentials[0].chain;
        (1..100).find(|number| chain[0] == certificate(*number))
    }

    /// Looks once, and waits until the answer has come to Redis, or not.
    async fn fill(&self, name: &str) {
        let ended = || fills(&self.counts());
        let before = ended();
        self.find(name).await.unwrap();
        until("the fill ends", || ended() > before).await;
    }

    fn counts(&self) -> Counts {
        self.cache.counts()
    }

    fn hits(&self) -> u64 {
        self.counts().hits.get()
    }
}

/// Counts the answers that were offered to Redis.
fn fills(counts: &Counts) -> u64 {
    let answered = counts.stored.get() + counts.refused.get();
    answered + counts.failed.get() + counts.dropped.get()
}

fn credential(number: u64, content: u64) -> StoredCredential<Secret> {
    StoredCredential {
        id: CredentialId::from_u64(number),
        version: 0,
        key_type: KeyType::Ecdsa,
        chain: vec![certificate(content), certificate(0)],
        key: plain(&content.to_be_bytes()),
        not_before: 0,
        not_after: 1,
        origin: None,
    }
}

async fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < Duration::from_secs(20), "{what}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

fn master() -> MasterKey {
    MasterKey::new(&[5; 32])
}

/// How long calls of Redis may take.
#[derive(Clone)]
struct Waits {
    get: Duration,
    /// Of a page of changes.
    advance: Duration,
    background: Duration,
}

impl Default for Waits {
    fn default() -> Self {
        let Timeouts { get, background } = Timeouts::default();
        Self {
            get,
            advance: sekisho_certs::feed::CACHE_TIMEOUT,
            background,
        }
    }
}

/// A busy machine must not make a Redis that is passed over.
const PATIENT: Waits = Waits {
    get: Duration::from_secs(20),
    advance: Duration::from_secs(20),
    background: Duration::from_secs(20),
};
