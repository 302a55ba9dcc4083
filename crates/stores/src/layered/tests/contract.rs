//! The suite on catalogs behind a level, read through the level.

use tokio::task::AbortHandle;

use super::*;
use crate::contract::{limited, plain_postgres, plain_sqlite, warmed};
use sekisho_certs::contract::Fixture;

/// Reads each name twice, the second time when the level has had its chance.
#[derive(Debug)]
struct Twice {
    inner: Arc<Layered>,
}

impl Twice {
    fn reached(&self) -> Result<()> {
        Ok(())
    }
}

catalog_passed_on!(Twice {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(async move {
            self.inner.find(name).await?;
            let shared = &self.inner.shared;
            let is_settled = || shared.is_usable() && shared.fills.available_permits() == FILLS;
            // While others write it may never be.
            for _ in 0..50 {
                if is_settled() {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            self.inner.find(name).await
        })
    }

    fn find_past_level<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        self.inner.find_past_level(name)
    }
});

/// What must live as long as the catalog under test.
struct Keep {
    feed: AbortHandle,
    _redis: RedisServer,
    _inner: Box<dyn std::any::Any + Send + Sync>,
}

impl Drop for Keep {
    fn drop(&mut self) {
        self.feed.abort();
    }
}

fn layered(inner: Fixture) -> Fixture {
    let redis = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let url = RedisUrl::parse_level(&url, Path::new("/")).unwrap();
    let level = Level::open(&url, &Handle::current()).unwrap();
    let store = Arc::new(Layered::new(
        level,
        inner.catalog,
        PATIENT,
        &Handle::current(),
    ));
    let feed = tokio::spawn(feed(Arc::clone(&store)));
    Fixture {
        catalog: Arc::new(Twice { inner: store }),
        keep: Box::new(Keep {
            feed: feed.abort_handle(),
            _redis: redis,
            _inner: inner.keep,
        }),
        ..inner
    }
}

/// Follows the log, as a server does.
async fn feed(store: Arc<Layered>) {
    let mut after = store.head().await.unwrap().number;
    loop {
        let hint = store.changed();
        let page = store.changes(after, 1000).await.unwrap();
        after = page.changes.last().map_or(page.last, |last| last.number);
        let _ = timeout(Duration::from_millis(500), hint).await;
    }
}

macro_rules! suites {
    ($($name:ident: $fixture:expr;)+) => {
        $(mod $name {
            use super::*;
            sekisho_certs::catalog_contract!($fixture);
        })+
    };
}

suites! {
    layered_memory: async { layered(Fixture::memory()) };
    layered_sqlite: async { layered(plain_sqlite().await) };
    // As a server stacks them.
    warm_layered_limited_postgres: async {
        warmed(layered(limited(plain_postgres().await).await)).await
    };
}

/// Else the suite would say nothing of the level.
#[tokio::test]
async fn the_suite_reads_through_the_level() {
    let redis = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", redis.port());
    let url = RedisUrl::parse_level(&url, Path::new("/")).unwrap();
    let level = Level::open(&url, &Handle::current()).unwrap();
    let inner = Fixture::memory();
    let catalog = inner.catalog.clone();
    let store = Arc::new(Layered::new(level, catalog, PATIENT, &Handle::current()));
    let feed = tokio::spawn(feed(Arc::clone(&store)));
    let (counts, twice) = (store.counts(), Twice { inner: store });
    inner.put("a.example").await;
    until("it follows", || counts.is_usable()).await;
    let name = HostName::parse("a.example").unwrap();
    for _ in 0..20 {
        twice.find(&name).await.unwrap();
    }
    assert!(counts.reads(Read::Hit) >= 20, "{counts:?}");
    feed.abort();
}
