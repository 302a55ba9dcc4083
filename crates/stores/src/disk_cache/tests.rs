mod another;
mod answers;
mod disk;
mod follow;
mod hand_over;
mod plain;
mod rotation;
mod start;
pub(crate) mod switch;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::switch::Switch;
use super::*;
use crate::tiers::Tiers;
use sekisho_certs::Follower;
use sekisho_certs::credential::{CredentialId, Secret};
use sekisho_certs::feed::Feed;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::{KeyRing, MasterKey, OpenKey, Sealer};
use sekisho_certs::store::{Answer, Catalog, Document, Precondition, Store, Write};
use sekisho_testkit::Memory;
use sekisho_testkit::contract::Fixture;
use sekisho_testkit::contract::fixture::{host_with, plain};

/// A catalog that a test cuts off, and a folder for copies of it.
struct Rig {
    folder: TempDir,
    /// Contents of the catalog, also while it can't be reached.
    there: Fixture,
    switch: Arc<Switch>,
    size: u64,
    /// Name of the store.
    store: &'static str,
}

impl Rig {
    fn new() -> Self {
        let (clock, now) = Fixture::clock();
        let catalog: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
        Self {
            folder: tempfile::tempdir().unwrap(),
            switch: Arc::new(Switch::new(Arc::clone(&catalog))),
            there: Fixture {
                catalog,
                clock: now,
                keep: Box::new(()),
            },
            size: 8 << 20,
            store: "memory",
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("disk-cache.db")
    }

    fn options(&self) -> Options {
        Options {
            path: self.path(),
            size: self.size,
            store: self.store.into(),
            documents: vec!["kept".into()],
            clock: Clock::Manual(Arc::clone(&self.there.clock)),
        }
    }

    /// Writes to the catalog from elsewhere.
    async fn write(&self, writes: Vec<Write<Secret>>) {
        let catalog = Arc::clone(&self.there.catalog);
        let sealer = Sealer::create(catalog, ring()).await.unwrap();
        sealer.write(writes).await.unwrap();
    }

    async fn put(&self, name: &str) -> CredentialId {
        let number = self.there.number().await + 1;
        self.write(host_with(name, number, plain)).await;
        CredentialId::from_u64(number)
    }

    /// As a process that starts: the one before may just be ending.
    async fn disk(&self, seen: &Arc<Seen>) -> Arc<DiskCache> {
        let begun = Instant::now();
        loop {
            match DiskCache::open(&self.options(), Arc::clone(seen), &Handle::current()) {
                Ok(disk) => return Arc::new(disk),
                Err(why) if begun.elapsed() < LONG => {
                    assert!(why.to_string().contains("another server"), "{why}");
                    tokio::time::sleep(LOOK).await;
                }
                Err(why) => panic!("{why}"),
            }
        }
    }

    async fn server(&self) -> Server {
        self.server_with(ring()).await.unwrap()
    }

    /// A server that starts, whether the catalog can be reached or not.
    async fn server_with(&self, keys: KeyRing) -> Result<Server> {
        self.server_on(keys, async |seen| self.disk(seen).await)
            .await
    }

    /// A server that starts on the disk cache that `open` gives.
    async fn server_on(
        &self,
        keys: KeyRing,
        open: impl AsyncFnOnce(&Arc<Seen>) -> Arc<DiskCache>,
    ) -> Result<Server> {
        let catalog = Arc::clone(&self.switch) as Arc<dyn Catalog>;
        if self.switch.is_open() {
            Sealer::create(Arc::clone(&catalog), ring().with(master(6))).await?;
        }
        let sealer = Sealer::unopened(Arc::clone(&catalog), keys);
        let seen = Arc::clone(sealer.seen());
        let disk = open(&seen).await;
        if let (Err(_), Some(start)) = (sealer.ensure_open().await, disk.start_state()) {
            sealer.open_with(start.catalog, start.check).await?;
        }
        disk.keep_up(Arc::clone(&catalog), &tokio::runtime::Handle::current());
        let feed = Feed::new(catalog, seen).first([disk.clone() as Arc<dyn Follower>], LONG);
        let mut feed = feed.then(Arc::new(sealer.clone()));
        if let Some(at) = disk.position() {
            feed.begin_at(at).await;
        }
        Ok(Server {
            tiers: Arc::new(Tiers::catalog(sealer.clone()).disk(Some(disk.clone()))),
            sealer,
            disk,
            feed: feed.into(),
        })
    }

    /// Starts a server that follows the log.
    async fn following(&self) -> Server {
        let server = self.server().await;
        server.follow().await;
        server
    }
}

struct Server {
    tiers: Arc<Tiers>,
    sealer: Sealer,
    disk: Arc<DiskCache>,
    feed: tokio::sync::Mutex<Feed>,
}

impl Server {
    /// Has the feed read what changed since it last looked.
    async fn follow(&self) {
        self.feed.lock().await.read().await.unwrap();
        self.settled().await;
    }

    /// Waits until the disk has all that it was given.
    async fn settled(&self) {
        self.disk.settled().await;
    }

    async fn kept(&self, number: u64) {
        kept(&self.disk, number).await;
    }

    async fn find(&self, name: &str) -> Result<Option<Box<Found<OpenKey>>>> {
        find(&*self.tiers, name).await
    }

    async fn who(&self, name: &str) -> String {
        who(&*self.tiers, name).await
    }
}

impl DiskCache {
    /// Waits until the file has all that it was given.
    async fn settled(&self) {
        let shared = &self.inner.shared;
        let is_empty = || shared.pending.is_empty() && shared.resync.is_done();
        until(is_empty, || format!("{self:?}")).await;
        self.inner.ask(|_| ()).await.unwrap();
    }

    /// Lets the disk hang until the other end is dropped.
    async fn hang(&self, hung: Receiver<()>) {
        let inner = Arc::clone(&self.inner);
        let hang = move |_: &mut Writer| {
            let _ = hung.recv();
        };
        tokio::spawn(async move { inner.ask(hang).await });
        tokio::task::yield_now().await;
    }
}

async fn find(store: &dyn Store, name: &str) -> Result<Option<Box<Found<OpenKey>>>> {
    let name = HostName::parse(name).unwrap();
    Ok(store.find(&name).await?.found)
}

fn master(key: u8) -> MasterKey {
    MasterKey::new(&[key; 32])
}

fn ring() -> KeyRing {
    KeyRing::new(master(5))
}

/// Returns who answers for a name; an empty text for nobody, and for a failure what it
/// says.
async fn who(store: &dyn Store, name: &str) -> String {
    match find(store, name).await {
        Ok(found) => found.map_or(String::new(), |found| found.record.pattern.to_string()),
        Err(error) => error.to_string(),
    }
}

impl DiskCache {
    fn stats(&self) -> Stats {
        self.inner.shared.stats.clone()
    }
}

/// Waits until that many copies lie on the disk.
async fn kept(disk: &DiskCache, number: u64) {
    until(
        || disk.stats().copies.get() == number,
        || format!("{:?}", disk.stats()),
    )
    .await;
}

async fn until(mut asked: impl FnMut() -> bool, state: impl Fn() -> String) {
    let begun = Instant::now();
    while !asked() {
        assert!(begun.elapsed() < LONG, "{}", state());
        tokio::time::sleep(LOOK).await;
    }
}

fn away() -> Option<StoreError> {
    Some(StoreError::Unavailable("away".into()))
}

const AWAY: &str = "the store is unavailable: away";
const LOOK: Duration = Duration::from_millis(2);
const LONG: Duration = Duration::from_secs(20);
