//! The suite on every catalog and wrapper of this crate.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use sekisho_testkit::services;
use sekisho_testkit::{Answer, Endpoint, Key, RedisServer, Speaks, TestCa};
use tempfile::TempDir;
use tokio::runtime::Handle;

use crate::catalog_store::CatalogStore;
use crate::files::Files;
use crate::http::{self, Http};
use crate::limited::{Limited, Limits};
use crate::postgres::{self as database, Postgres};
use crate::redis::{Redis, RedisUrl};
use crate::sqlite::{Mode, Options, Sqlite};
use crate::warm::{self, Copies, Warm, WarmPlain};
use sekisho_certs::clock::Clock;
use sekisho_certs::contract::fixture::{host_with, plain};
use sekisho_certs::contract::{Fixture, Names};
use sekisho_certs::seal::{KeyRing, MasterKey, Sealer};

fn sqlite_with(mmap: bool) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let (clock, hand) = Fixture::clock();
    let options = Options {
        clock,
        mmap,
        keep: Fixture::KEEP,
        ..Options::default()
    };
    let path = folder.path().join("hosts.db");
    let catalog = Sqlite::open_with(&path, Mode::Create, &options).unwrap();
    Fixture {
        catalog: Arc::new(catalog),
        clock: hand,
        keep: Box::new(folder),
    }
}

pub(crate) async fn plain_sqlite() -> Fixture {
    sqlite_with(false)
}

async fn mapped_sqlite() -> Fixture {
    sqlite_with(true)
}

fn postgres_at(url: &str) -> Fixture {
    let (clock, hand) = Fixture::clock();
    let options = database::Options {
        clock: Some(clock),
        keep: Fixture::KEEP,
        ..database::Options::default()
    };
    let url = database::Url::parse(url, Path::new("/")).unwrap();
    let mode = database::Mode::Create;
    let catalog = Postgres::new(&url, mode, &options, &Handle::current()).unwrap();
    Fixture {
        catalog: Arc::new(catalog),
        clock: hand,
        keep: Box::new(()),
    }
}

pub(crate) async fn plain_postgres() -> Fixture {
    postgres_at(&services::Postgres::shared().database())
}

async fn pooled_postgres() -> Fixture {
    let server = services::Postgres::shared();
    postgres_at(&services::PgBouncer::shared().through(server, &server.database()))
}

pub(crate) async fn limited(inner: Fixture) -> Fixture {
    // A busy machine must not fail the suite.
    let limits = Limits {
        deadline: std::time::Duration::from_secs(30),
        ..Limits::default()
    };
    Fixture {
        catalog: Arc::new(Limited::new(inner.catalog, &limits)),
        ..inner
    }
}

/// The copies must not show while the store answers.
pub(crate) async fn warmed(inner: Fixture) -> Fixture {
    let (copies, folder) = copies();
    Fixture {
        catalog: Arc::new(Warm::new(inner.catalog, copies)),
        keep: Box::new((inner.keep, folder)),
        ..inner
    }
}

fn copies() -> (Copies, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let options = warm::Options {
        path: folder.path().join("warm.db"),
        size: 16 << 20,
        store: String::new(),
        documents: vec!["a"],
        clock: Clock::System,
    };
    (Copies::open(&options).unwrap(), folder)
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
    sqlite: plain_sqlite();
    sqlite_mapped: mapped_sqlite();
    postgres: plain_postgres();
    postgres_behind_pgbouncer: pooled_postgres();
    limited_memory: async { limited(Fixture::memory()).await };
    limited_sqlite: async { limited(plain_sqlite().await).await };
    limited_postgres: async { limited(plain_postgres().await).await };
    limited_pgbouncer: async { limited(pooled_postgres().await).await };
    warm_memory: async { warmed(Fixture::memory()).await };
    warm_sqlite: async { warmed(plain_sqlite().await).await };
    warm_limited_postgres: async { warmed(limited(plain_postgres().await).await).await };
}

/// A catalog as the lookup asks it: written through a sealer, and opened by it.
async fn opened(inner: Fixture) -> Names {
    let ring = KeyRing::new(MasterKey::new(&[5; 32]));
    let sealer = Sealer::create(inner.catalog, ring).await.unwrap();
    let (writer, keep) = (sealer.clone(), inner.keep);
    let number = AtomicU64::new(1);
    Names {
        store: Arc::new(CatalogStore::new(sealer)),
        put: Box::new(move |name| {
            let _lives = &keep;
            let number = number.fetch_add(1, Ordering::Relaxed);
            let (writer, writes) = (writer.clone(), host_with(name, number, plain));
            Box::pin(async move {
                writer.write(writes).await.unwrap();
            })
        }),
    }
}

mod opened_sqlite {
    use super::*;
    sekisho_certs::store_contract!(async { opened(plain_sqlite().await).await });
}

mod opened_limited_postgres {
    use super::*;
    sekisho_certs::store_contract!(async { opened(limited(plain_postgres().await).await).await });
}

mod files {
    use super::*;
    sekisho_certs::store_contract!(plain_files());
}

mod limited_files {
    use super::*;
    sekisho_certs::store_contract!(async {
        let files = plain_files().await;
        Names {
            store: Arc::new(Limited::new(files.store, &Limits::default())),
            put: files.put,
        }
    });
}

mod http1 {
    use super::*;
    sekisho_certs::store_contract!(plain_http(false));
}

mod http2 {
    use super::*;
    sekisho_certs::store_contract!(plain_http(true));
}

mod limited_http {
    use super::*;
    sekisho_certs::store_contract!(async {
        let http = plain_http(true).await;
        Names {
            store: Arc::new(Limited::new(http.store, &Limits::default())),
            put: http.put,
        }
    });
}

mod redis {
    use super::*;
    sekisho_certs::store_contract!(plain_redis(RedisServer::start(), "redis"));
}

mod limited_redis {
    use super::*;
    sekisho_certs::store_contract!(async {
        let redis = plain_redis(RedisServer::start(), "redis").await;
        Names {
            store: Arc::new(Limited::new(redis.store, &Limits::default())),
            put: redis.put,
        }
    });
}

mod warm_redis {
    use super::*;
    sekisho_certs::store_contract!(async {
        let redis = plain_redis(RedisServer::start(), "redis").await;
        let (copies, folder) = copies();
        let ring = KeyRing::new(MasterKey::new(&[5; 32]));
        let put = redis.put;
        Names {
            store: Arc::new(WarmPlain::new(redis.store, copies, ring)),
            put: Box::new(move |name| {
                let _lives = &folder;
                put(name)
            }),
        }
    });
}

mod redis_cluster {
    use super::*;
    sekisho_certs::store_contract!(plain_redis(RedisServer::start_cluster(), "redis+cluster"));
}

mod redis_tls {
    use super::*;
    sekisho_certs::store_contract!(async {
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
    sekisho_certs::store_contract!(async {
        let server = RedisServer::start();
        let sentinel = RedisServer::start_sentinel(&server, "main");
        let url = format!("redis+sentinel://127.0.0.1:{}/main", sentinel.port());
        let names = redis_at(server, &url);
        Names {
            put: Box::new(move |name| {
                // It lives as long.
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
    let options = http::Options {
        ca: Some(file.path().to_owned()),
        // A busy machine must not fail the suite.
        deadline: std::time::Duration::from_secs(30),
        ..http::Options::default()
    };
    let url = format!("https://{}/{{host}}", endpoint.address);
    let store = Http::new(url.parse().unwrap(), &options, Handle::current()).unwrap();
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
    let store = Files::new("{host}", folder.path()).unwrap();
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
