//! The suite on every store of this crate, and through its caches.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use sekisho_testkit::services;
use sekisho_testkit::{Answer, Endpoint, Key, RedisServer, Speaks, TestCa};
use tempfile::TempDir;
use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::disk_cache::{self, DiskCache};
use crate::files::{Files, Pattern};
use crate::http::Http;
use crate::postgres::{self as database, Postgres};
use crate::redis::{Redis, RedisUrl};
use crate::redis_cache::{CacheServer, RedisCache, Timeouts};
use crate::sqlite::{Mode, Options, Sqlite};
use crate::tiers::Tiers;
use sekisho_certs::Follower;
use sekisho_certs::Seen;
use sekisho_certs::clock::Clock;
use sekisho_certs::feed::{CACHE_TIMEOUT, Feed};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer};
use sekisho_testkit::contract::fixture::{host_with, plain};
use sekisho_testkit::contract::{Fixture, Names};

async fn plain_sqlite() -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let (clock, now) = Fixture::clock();
    let options = Options {
        clock,
        keep: Fixture::KEEP,
        ..Options::default()
    };
    let path = folder.path().join("hosts.db");
    let catalog = Sqlite::open_with(&path, Mode::Create, &options).unwrap();
    Fixture {
        catalog: Arc::new(catalog),
        clock: now,
        keep: Box::new(folder),
    }
}

fn postgres_at(url: &str) -> Fixture {
    let (clock, now) = Fixture::clock();
    let options = database::Options {
        mode: database::Mode::Create,
        clock: Some(clock),
        keep: Fixture::KEEP,
        ..database::Options::default()
    };
    let url = database::Url::parse(url, Path::new("/")).unwrap();
    let catalog = Postgres::new(&url, &options, &Handle::current()).unwrap();
    Fixture {
        catalog: Arc::new(catalog),
        clock: now,
        keep: Box::new(()),
    }
}

async fn plain_postgres() -> Fixture {
    postgres_at(&services::Postgres::shared().database())
}

async fn pooled_postgres() -> Fixture {
    let server = services::Postgres::shared();
    postgres_at(&services::PgBouncer::shared().through(server, &server.database()))
}

fn disk_cache(seen: Arc<Seen>) -> (Arc<DiskCache>, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = disk_cache::Options {
        path: folder.path().join("disk-cache.db"),
        size: 16 << 20,
        store: String::new(),
        documents: vec!["a".into()],
        clock: Clock::System,
    };
    let cache = DiskCache::open(&options, seen, &Handle::current()).unwrap();
    (Arc::new(cache), folder)
}

fn ring() -> KeyRing {
    KeyRing::new(MasterKey::new(&[5; 32]))
}

macro_rules! suites {
    ($($name:ident: $fixture:expr;)+) => {
        $(mod $name {
            use super::*;
            sekisho_testkit::catalog_contract!($fixture);
        })+
    };
}

suites! {
    sqlite: plain_sqlite();
    postgres: plain_postgres();
    postgres_behind_pgbouncer: pooled_postgres();
}

/// A catalog as the lookup asks it: with a Redis cache before it and a cache on
/// disk, which follow its log, written through a sealer.
async fn tiers(inner: Fixture) -> Names {
    let sealer = Sealer::create(inner.catalog, ring()).await.unwrap();
    let (catalog, seen) = (Arc::clone(sealer.catalog()), Arc::clone(sealer.seen()));
    let server = RedisServer::start();
    let url = format!("redis://127.0.0.1:{}", server.port());
    let url = RedisUrl::parse_cache(&url, Path::new("/")).unwrap();
    let runtime = Handle::current();
    let redis = CacheServer::open(&url, &runtime).unwrap();
    let timeouts = Timeouts::default();
    let redis = RedisCache::new(redis, catalog.clone(), seen.clone(), timeouts, &runtime);
    let redis = Arc::new(redis);
    let (disk, folder) = disk_cache(seen.clone());
    disk.keep_up(catalog.clone(), &runtime);
    let caches: [Arc<dyn Follower>; 2] = [redis.clone(), disk.clone()];
    let feed = Feed::new(catalog, seen).first(caches, CACHE_TIMEOUT);
    let feed = tokio::spawn(feed.then(Arc::new(sealer.clone())).run());
    let mut tiers = Tiers::catalog(sealer.clone())
        .redis(Some(redis))
        .disk(Some(disk));
    // A busy machine must not fail the suite.
    tiers.deadline = Duration::from_secs(30);
    let keep = (
        inner.keep,
        server,
        folder,
        AbortOnDropHandle(feed.abort_handle()),
    );
    let number = AtomicU64::new(1);
    Names {
        store: Arc::new(tiers),
        put: Box::new(move |name| {
            let _lives = &keep;
            let number = number.fetch_add(1, Ordering::Relaxed);
            let (writer, writes) = (sealer.clone(), host_with(name, number, plain));
            Box::pin(async move {
                writer.write(writes).await.unwrap();
            })
        }),
    }
}

struct AbortOnDropHandle(AbortHandle);

impl Drop for AbortOnDropHandle {
    fn drop(&mut self) {
        self.0.abort();
    }
}

mod tiers_sqlite {
    use super::*;
    sekisho_testkit::store_contract!(async { tiers(plain_sqlite().await).await });
}

mod tiers_postgres {
    use super::*;
    sekisho_testkit::store_contract!(async { tiers(plain_postgres().await).await });
}

mod files {
    use super::*;
    sekisho_testkit::store_contract!(plain_files());
}

mod http1 {
    use super::*;
    sekisho_testkit::store_contract!(plain_http(false));
}

mod http2 {
    use super::*;
    sekisho_testkit::store_contract!(plain_http(true));
}

mod redis {
    use super::*;
    sekisho_testkit::store_contract!(plain_redis(RedisServer::start(), "redis"));
}

mod tiers_redis {
    use super::*;
    sekisho_testkit::store_contract!(async {
        let redis = plain_redis(RedisServer::start(), "redis").await;
        let (disk, folder) = disk_cache(Arc::default());
        let put = redis.put;
        Names {
            store: Arc::new(Tiers::plain_with_disk(redis.store, disk, ring())),
            put: Box::new(move |name| {
                let _lives = &folder;
                put(name)
            }),
        }
    });
}

mod redis_cluster {
    use super::*;
    sekisho_testkit::store_contract!(plain_redis(RedisServer::start_cluster(), "redis+cluster"));
}

mod redis_tls {
    use super::*;
    sekisho_testkit::store_contract!(async {
        let server = RedisServer::start_tls(&TestCa::new(), &[]);
        let file = |name: &str| server.path(name).display().to_string();
        let (ca, cert, key) = (file("ca.pem"), file("tls.crt"), file("tls.key"));
        let port = server.port();
        let url = format!("rediss://127.0.0.1:{port}?ca={ca}&client_cert={cert}&client_key={key}");
        redis_at(server, &url)
    });
}

mod redis_sentinel {
    use super::*;
    sekisho_testkit::store_contract!(async {
        let server = RedisServer::start();
        let sentinel = RedisServer::start_sentinel(&server, "main");
        let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
        let names = redis_at(server, &url);
        Names {
            put: Box::new(move |name| {
                // The sentinel lives as long.
                let _ = &sentinel;
                (names.put)(name)
            }),
            store: names.store,
        }
    });
}

async fn plain_redis(server: RedisServer, scheme: &str) -> Names {
    let url = format!("{scheme}://127.0.0.1:{}", server.port());
    redis_at(server, &url)
}

fn redis_at(server: RedisServer, url: &str) -> Names {
    let url = RedisUrl::parse(url, Path::new("/")).unwrap();
    let store = Redis::open(&url, &Handle::current()).unwrap();
    let ca = TestCa::new();
    Names {
        store: Arc::new(store),
        put: Box::new(move |name| {
            let pair = ca.issue(&[name], Key::P256);
            server.set(&format!("{name}.crt"), &pair.chain_pem());
            server.set(&format!("{name}.key"), &pair.key_pem());
            Box::pin(std::future::ready(()))
        }),
    }
}

/// Before a real endpoint, over TLS.
async fn plain_http(http2: bool) -> Names {
    let ca = TestCa::new();
    let server = ca.issue(&["127.0.0.1"], Key::P256);
    let endpoint = Endpoint::start(match http2 {
        true => Speaks::Http2(&server),
        false => Speaks::Http1(&server),
    });
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(&file, ca.root_pem()).unwrap();
    let options = crate::Options {
        ca: Some(file.path().to_owned()),
        ..crate::Options::default()
    };
    // A busy machine must not fail the suite.
    let deadline = std::time::Duration::from_secs(30);
    let url = format!("https://{}/{{host}}", endpoint.address);
    let store = Http::new(url.parse().unwrap(), &options, deadline, Handle::current()).unwrap();
    Names {
        store: Arc::new(store),
        put: Box::new(move |name| {
            let pair = ca.issue(&[name], Key::P256);
            let target = format!("/{}", name.replace('*', "_"));
            endpoint.put(&target, Answer::ok(pair.chain_pem() + &pair.key_pem()));
            Box::pin(std::future::ready(()))
        }),
    }
}

async fn plain_files() -> Names {
    let folder = tempfile::tempdir().unwrap();
    fs::write(
        folder.path().join("README"),
        "an empty folder counts as not mounted",
    )
    .unwrap();
    let store = Files::new(Pattern::parse("{host}", folder.path()).unwrap()).unwrap();
    let ca = TestCa::new();
    Names {
        store: Arc::new(store),
        put: Box::new(move |name| {
            let pair = ca.issue(&[name], Key::P256);
            let stem = folder.path().join(name.replace('*', "_"));
            fs::create_dir(&stem).unwrap();
            fs::write(stem.join("fullchain.pem"), pair.chain_pem()).unwrap();
            fs::write(stem.join("privkey.pem"), pair.key_pem()).unwrap();
            Box::pin(std::future::ready(()))
        }),
    }
}
