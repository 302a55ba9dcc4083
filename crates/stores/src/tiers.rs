//! Lookups behind the memory cache: Redis cache, store and disk cache, in one
//! list.

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use crate::backoff::Backoff;
use crate::breaker::Breaker;
use crate::disk_cache::DiskCache;
use crate::fault::{unavailable, within};
pub use crate::options::STORE_TIMEOUT;
#[cfg(feature = "redis")]
use crate::redis_cache::{CachePosition, RedisCache};
use sekisho_certs::Noted;
use sekisho_certs::host::HostName;
use sekisho_certs::seal::{KeyRing, OpenKey, Sealer};
use sekisho_certs::store::{
    Answer, BoxFuture, Document, DocumentId, Found, Result, Store, StoreError,
};
use sekisho_certs::{ChallengeSource, SealedBytes, Secret, Texts};

/// Store with the caches before and behind it.
#[derive(Debug)]
pub struct Tiers {
    origin: Origin,
    #[cfg(feature = "redis")]
    redis: Option<Arc<RedisCache>>,
    disk: Option<Arc<DiskCache>>,
    /// Bound of each call of the store.
    pub(crate) deadline: Duration,
    breaker: Breaker,
}

/// Where hosts live.
#[derive(Debug)]
enum Origin {
    /// Secrets are sealed, and a log tells what changed.
    Catalog(Sealer),
    /// Others write it. Copies of its keys are sealed under this ring.
    Plain(Arc<dyn Store>, Option<KeyRing>),
}

/// Lookup under way.
struct Question<'a> {
    name: &'a HostName,
    noted: Noted,
    #[cfg(feature = "redis")]
    redis: Option<CachePosition>,
    /// True if Redis is asked before the store.
    #[cfg(feature = "redis")]
    redis_first: bool,
}

impl Tiers {
    /// Asks the catalog that is sealed by this.
    #[must_use]
    pub fn catalog(sealer: Sealer) -> Self {
        Self::of(Origin::Catalog(sealer))
    }

    /// Asks a store that others write.
    #[must_use]
    pub fn plain(store: Arc<dyn Store>) -> Self {
        Self::of(Origin::Plain(store, None))
    }

    /// Asks a store that others write, and this cache where it failed with a retryable
    /// error. Keys in the cache are sealed under that ring.
    #[must_use]
    pub fn plain_with_disk(store: Arc<dyn Store>, disk: Arc<DiskCache>, ring: KeyRing) -> Self {
        Self::of(Origin::Plain(store, Some(ring))).disk(Some(disk))
    }

    fn of(origin: Origin) -> Self {
        Self {
            origin,
            #[cfg(feature = "redis")]
            redis: None,
            disk: None,
            deadline: STORE_TIMEOUT,
            breaker: Breaker::new(FAILURES, BREAKER_DELAYS),
        }
    }

    /// Asks this cache first. It follows the log of the same catalog.
    #[cfg(feature = "redis")]
    #[must_use]
    pub fn redis(self, redis: Option<Arc<RedisCache>>) -> Self {
        Self { redis, ..self }
    }

    /// Asks this cache where the store failed with a retryable error. The cache
    /// follows the log of the same catalog.
    #[must_use]
    pub fn disk(self, disk: Option<Arc<DiskCache>>) -> Self {
        Self { disk, ..self }
    }
}

impl Store for Tiers {
    /// 1. Notes, once, how far this process has seen the log.
    /// 2. Asks Redis, while changes arrive, for a state that is as far. A copy
    ///    that does not open is a miss.
    /// 3. Asks the store, under a deadline and a circuit breaker. Its answer is
    ///    offered to both caches and opened. An answer from an older state than
    ///    was noted, or from another log, is read again.
    /// 4. Only if the store failed with a retryable error (out of reach, too
    ///    slow, overloaded, or this call failed): asks Redis, unless step 2 did,
    ///    then the disk. The answer counts as stale.
    ///
    /// Without a log, 1 and 2 fall away, and each answer, an absence too,
    /// replaces or drops the copy on disk.
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(async move {
            let question = self.note(name);
            #[cfg(feature = "redis")]
            if question.redis_first
                && let Some(answer) = self.ask_redis(&question).await
            {
                return Ok(answer);
            }
            match self.ask_store(&question).await {
                Err(failed) if failed.is_retryable() => self.stand_in(&question, failed).await,
                answer => answer,
            }
        })
    }
}

impl ChallengeSource for Tiers {
    /// Asks the catalog, under the deadline and the circuit breaker of lookups: a
    /// catalog that is out of reach keeps no CA waiting. Nobody writes challenges
    /// into another store.
    fn challenge<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<Secret>>>> {
        Box::pin(async move {
            match &self.origin {
                Origin::Catalog(sealer) => self.bounded(sealer.document(id)).await,
                Origin::Plain(..) => Ok(None),
            }
        })
    }

    fn texts(&self) -> BoxFuture<'_, Result<Texts>> {
        Box::pin(async move {
            match &self.origin {
                Origin::Catalog(sealer) => self.bounded(sealer.texts()).await,
                Origin::Plain(..) => Ok(Texts::new()),
            }
        })
    }
}

impl Tiers {
    /// Step 1: notes how far the log was seen, and whether Redis comes first.
    fn note<'a>(&self, name: &'a HostName) -> Question<'a> {
        let noted = match &self.origin {
            Origin::Catalog(sealer) => sealer.seen().note(),
            Origin::Plain(..) => Noted::default(),
        };
        #[cfg(feature = "redis")]
        let redis = self.redis.as_ref();
        Question {
            name,
            noted,
            #[cfg(feature = "redis")]
            redis: redis.and_then(|redis| redis.position(noted)),
            #[cfg(feature = "redis")]
            redis_first: redis.is_some_and(|redis| redis.is_feed_healthy()),
        }
    }

    /// Step 2, or part of step 4: asks Redis for a state that is as far, and opens
    /// its answer.
    #[cfg(feature = "redis")]
    async fn ask_redis(&self, question: &Question<'_>) -> Option<Answer<OpenKey>> {
        let (Origin::Catalog(sealer), Some(redis)) = (&self.origin, &self.redis) else {
            return None;
        };
        let found = redis.find(question.redis.as_ref(), question.name).await?;
        let opened = sealer.open_answer(Answer::found(*found)).await;
        opened
            .inspect_err(|why| redis.count_unusable(question.name, why))
            .ok()
    }

    /// Step 3: asks the store, and offers its answer to the caches.
    async fn ask_store(&self, question: &Question<'_>) -> Result<Answer<OpenKey>> {
        match &self.origin {
            Origin::Catalog(sealer) => self.ask_catalog(question, sealer).await,
            Origin::Plain(store, ring) => {
                let answer = self.bounded(store.find(question.name)).await?;
                if let (Some(disk), Some(ring)) = (&self.disk, ring) {
                    disk.store_answered();
                    disk.keep_plain(question.name, answer.found.as_deref(), ring);
                }
                Ok(answer)
            }
        }
    }

    async fn ask_catalog(
        &self,
        question: &Question<'_>,
        sealer: &Sealer,
    ) -> Result<Answer<OpenKey>> {
        for _ in 0..MAX_LAGGING {
            let answer = self.bounded(sealer.catalog().find(question.name)).await?;
            if !question.is_older(&answer) {
                self.offer(question, answer.found.as_deref());
                return sealer.open_answer(answer).await;
            }
        }
        Err(unavailable(
            "the store answered from an older state than this server has seen, or from \
             another log",
        ))
    }

    /// Offers an answer of the catalog to both caches.
    fn offer(&self, question: &Question<'_>, found: Option<&Found<SealedBytes>>) {
        if let Some(disk) = &self.disk {
            disk.store_answered();
        }
        let Some(found) = found else { return };
        #[cfg(feature = "redis")]
        if let (Some(redis), Some(position)) = (&self.redis, &question.redis) {
            redis.fill(position.clone(), found);
        }
        if let Some(disk) = &self.disk {
            disk.keep(question.name, found, question.noted);
        }
    }

    /// Step 4: asks Redis, then the disk, for a copy. A copy is no contact with the
    /// store.
    async fn stand_in(
        &self,
        question: &Question<'_>,
        failed: StoreError,
    ) -> Result<Answer<OpenKey>> {
        #[cfg(feature = "redis")]
        if !question.redis_first
            && let Some(answer) = self.ask_redis(question).await
        {
            return Ok(stale(answer));
        }
        let Some(disk) = &self.disk else {
            return Err(failed);
        };
        let found = match &self.origin {
            Origin::Catalog(sealer) => match disk.find(question.name, question.noted).await {
                Some(found) => sealer.open_answer(Answer::found(found)).await,
                None => return Err(failed),
            },
            Origin::Plain(_, ring) => {
                let Some(ring) = ring else { return Err(failed) };
                let found = disk.find_plain(question.name, ring).await;
                Ok(found.map_or(Answer::absent(), Answer::found))
            }
        };
        match found {
            Ok(answer) if answer.found.is_some() => {
                disk.stood_in(&failed);
                Ok(stale(answer))
            }
            Ok(_) => Err(failed),
            // A copy that can't be used says nothing of what the store has.
            Err(why) => Err(unavailable(why)),
        }
    }

    async fn bounded<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let permit = self.breaker.allow().ok_or_else(|| {
            unavailable("it failed several times in a row and is left alone for a moment")
        })?;
        let outcome = within(self.deadline, call).await;
        match &outcome {
            Err(StoreError::Unavailable(_) | StoreError::TimedOut(_)) => permit.failed(),
            // A full queue is not a store failure.
            Err(StoreError::Overloaded) => {}
            // A failure by one host's data says nothing of the store.
            Ok(_) | Err(_) => permit.succeeded(),
        }
        outcome
    }
}

impl Question<'_> {
    /// Tells whether an answer is older than what had been seen before it was
    /// asked for. One of another log may be: a pooler may have led to another server, and
    /// only the feed, which then starts over, tells which log is in use.
    fn is_older(&self, answer: &Answer<SealedBytes>) -> bool {
        let seen = self.noted.position.zip(answer.read_at);
        seen.is_some_and(|(seen, read)| seen.log != read.log || read.number < seen.number)
    }
}

fn stale(answer: Answer<OpenKey>) -> Answer<OpenKey> {
    Answer {
        is_stale: true,
        ..answer
    }
}

/// Failures in a row that open the breaker: a store that only restarts has
/// fewer.
const FAILURES: u32 = 10;
/// Between two trials of a store that fails.
const BREAKER_DELAYS: Backoff = Backoff::new(Duration::from_millis(100), Duration::from_secs(5));
/// How often an answer from an older state is read again.
const MAX_LAGGING: usize = 3;
