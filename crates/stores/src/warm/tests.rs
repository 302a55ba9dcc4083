mod another;
mod answers;
mod disk;
mod following;
mod plain;
mod rotation;
mod switch;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tempfile::TempDir;

use self::switch::Switch;
use super::*;
use crate::catalog_store::CatalogStore;
use sekisho_certs::contract::Fixture;
use sekisho_certs::host::HostName;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::{Batch, KeyRing, Sealer};
use sekisho_certs::store::memory::Memory;
use sekisho_certs::store::{Answer, Catalog, ChangeLog, LogPosition, Store, StoreError};

/// A catalog that a test cuts off, and a folder for copies of it.
struct Rig {
    folder: TempDir,
    /// What the catalog holds, whether it can be reached or not.
    there: Fixture,
    switch: Arc<Switch>,
    size: u64,
}

impl Rig {
    fn new() -> Self {
        let (clock, hand) = Fixture::clock();
        let catalog: Arc<dyn Catalog> = Arc::new(Memory::keeping(clock, Fixture::KEEP));
        Self {
            folder: tempfile::tempdir().unwrap(),
            switch: Arc::new(Switch::new(Arc::clone(&catalog))),
            there: Fixture {
                catalog,
                clock: hand,
                keep: Box::new(()),
            },
            size: 8 << 20,
        }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("warm.db")
    }

    fn options(&self) -> Options {
        Options {
            path: self.path(),
            size: self.size,
            store: "memory".into(),
            documents: vec!["kept"],
            clock: Clock::Manual(Arc::clone(&self.there.clock)),
        }
    }

    /// As a process that starts: the one before may just be ending.
    fn copies(&self) -> Copies {
        let begun = Instant::now();
        loop {
            match Copies::open(&self.options()) {
                Ok(copies) => return copies,
                Err(why) if begun.elapsed() < LONG => {
                    assert!(why.to_string().contains("another server"), "{why}");
                    std::thread::sleep(LOOK);
                }
                Err(why) => panic!("{why}"),
            }
        }
    }

    fn warm(&self) -> (Warm, Copies) {
        let copies = self.copies();
        let inner = Arc::clone(&self.switch) as Arc<dyn Catalog>;
        (Warm::new(inner, copies.clone()), copies)
    }

    /// The same, as the lookup asks it.
    async fn opened(&self, ring: KeyRing) -> Result<(CatalogStore, Copies), StoreError> {
        let (warm, copies) = self.warm();
        let sealer = Sealer::open(Arc::new(warm), ring).await?;
        Ok((CatalogStore::new(sealer), copies))
    }

    /// The same, following the log as a feed does.
    async fn following(&self) -> (Warm, Copies, LogPosition) {
        let (warm, copies) = self.warm();
        let position = warm.head().await.unwrap();
        (warm, copies, position)
    }
}

/// What a test asks for names.
trait Asked {
    async fn record(&self, name: &HostName) -> Result<Option<HostRecord>, StoreError>;
}

macro_rules! asked {
    ($($store:ty),+) => {$(
        impl Asked for $store {
            async fn record(&self, name: &HostName) -> Result<Option<HostRecord>, StoreError> {
                Ok(self.find(name).await?.found.map(|found| found.record))
            }
        }
    )+};
}
asked!(Warm, WarmPlain, CatalogStore);

async fn ask(store: &impl Asked, name: &str) -> Result<Option<HostRecord>, StoreError> {
    store.record(&HostName::parse(name).unwrap()).await
}

/// Who answers for a name; an empty text for nobody, and for a failure what it
/// says.
async fn who(store: &impl Asked, name: &str) -> String {
    match ask(store, name).await {
        Ok(found) => found.map_or(String::new(), |record| record.pattern.to_string()),
        Err(error) => error.to_string(),
    }
}

/// Waits until that many copies lie on the disk.
async fn kept(copies: &Copies, number: u64) {
    until(
        || copies.stats().copies == number,
        || format!("{:?}", copies.stats()),
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
