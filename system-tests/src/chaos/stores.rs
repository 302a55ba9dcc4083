//! PostgreSQL and Redis of a run, and their outages.

use std::sync::{Arc, Mutex, PoisonError};

use anyhow::{Context, Result};
use sekisho_testkit::RedisServer;
use sekisho_testkit::services::{Postgres, Signal};
use tokio::task::spawn_blocking;

use super::plan::{How, Store};

/// Stores on their own ports and in their own folders. Dropping them ends both.
#[derive(Clone)]
pub(crate) struct Stores {
    postgres: Arc<Postgres>,
    redis: Arc<Mutex<RedisServer>>,
}

impl Stores {
    pub(crate) fn start() -> Self {
        Self {
            postgres: Arc::new(Postgres::start()),
            redis: Arc::new(Mutex::new(RedisServer::start())),
        }
    }

    /// Creates an empty database.
    pub(crate) fn database(&self) -> String {
        self.postgres.database()
    }

    pub(crate) fn redis(&self) -> String {
        let redis = self.redis.lock().unwrap_or_else(PoisonError::into_inner);
        format!("redis://127.0.0.1:{}/0", redis.port())
    }

    /// Makes a store unavailable.
    pub(crate) async fn take(&self, store: Store, how: How) -> Result<()> {
        self.aside(move |stores| match store {
            Store::Postgres => stores.postgres.signal(match how {
                How::Stop => Signal::End,
                How::Pause => Signal::Pause,
                How::Kill => Signal::Kill,
            }),
            Store::Redis => stores.with_redis(|redis| match how {
                How::Stop => redis.stop(),
                How::Pause => redis.pause(),
                How::Kill => {
                    // Redis must come back with its contents of now, not of its
                    // last periodic save.
                    redis.cli(&["save"]);
                    redis.kill();
                }
            }),
        })
        .await
    }

    /// Ends an outage, and waits until the store answers.
    pub(crate) async fn bring_back(&self, store: Store, how: How) -> Result<()> {
        self.aside(move |stores| match (store, how) {
            (Store::Postgres, How::Pause) => stores.postgres.signal(Signal::Resume),
            (Store::Postgres, How::Stop | How::Kill) => stores.postgres.begin(),
            (Store::Redis, How::Pause) => stores.with_redis(|redis| redis.resume()),
            (Store::Redis, How::Stop | How::Kill) => stores.with_redis(RedisServer::restart),
        })
        .await
    }

    fn with_redis(&self, act: impl FnOnce(&mut RedisServer)) {
        act(&mut self.redis.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// Runs a blocking call on another thread: clients must go on meanwhile.
    async fn aside(&self, act: impl FnOnce(&Self) + Send + 'static) -> Result<()> {
        let stores = self.clone();
        let acted = spawn_blocking(move || act(&stores)).await;
        acted.context("a store could not be taken away or brought back")
    }
}
