//! Ledger of what was taken from the limits of CAs: buckets in the catalog, from which all
//! servers take.
//!
//! A bucket ([`quota`](crate::quota)) is a document of the kind
//! [`DocumentKind::ACME_QUOTA`] that expires once it is full. A change reads the
//! buckets and writes them under the versions that it read. If another server was
//! faster, it begins again.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sekisho_certs::store::{Document, DocumentId, DocumentKind, Precondition, Write};
use sekisho_certs::{Clock, Sealer, Secret, StoreError, lock, random};

use crate::quota::{Bucket, Charge, Limit, RetryAt, Share};

/// Buckets of a catalog.
///
/// Each call is one transaction over all of its buckets. Charges with equal keys
/// are one. A call that is dropped may have taken its tokens; they come back with
/// time.
#[derive(Debug)]
pub struct Ledger {
    sealer: Sealer,
    clock: Clock,
    /// Locks, one for each CA that the configuration names. Calls of one process
    /// wait for each other: they conflict with those of other processes only.
    locks: Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>,
}

impl Ledger {
    /// Keeps buckets in this sealer's catalog.
    #[must_use]
    pub fn new(sealer: Sealer, clock: Clock) -> Self {
        Self {
            sealer,
            clock,
            locks: Mutex::default(),
        }
    }

    /// Takes a token of each bucket, or none of any. The refusal is the latest of
    /// all buckets.
    ///
    /// # Errors
    /// [`StoreError::Overloaded`] if other servers were faster again and again;
    /// else what the catalog failed with.
    pub async fn take(
        &self,
        ca: &str,
        charges: &[Charge],
        share: Share,
    ) -> Result<Result<(), RetryAt>, StoreError> {
        self.change(ca, charges, |buckets, now_ms| {
            take_each(buckets, now_ms, share)
        })
        .await
    }

    /// Says whether [`Ledger::take`] would succeed, and takes nothing.
    ///
    /// # Errors
    /// The catalog's failure.
    pub async fn has_room(
        &self,
        ca: &str,
        charges: &[Charge],
        share: Share,
    ) -> Result<Result<(), RetryAt>, StoreError> {
        let mut buckets = self.read(ca, charges).await?;
        let now_ms = self.clock.now_ms();
        Ok(take_each(&mut buckets, now_ms, share))
    }

    /// Returns the token of each bucket: the order was not made, or ended without a
    /// certificate.
    ///
    /// # Errors
    /// As [`Ledger::take`].
    pub async fn give_back(&self, ca: &str, charges: &[Charge]) -> Result<(), StoreError> {
        self.update(ca, charges, |limit, bucket, _| limit.give_back(bucket, 1))
            .await
    }

    /// Takes a token that is spent already, such as a failed validation, also
    /// from an empty bucket.
    ///
    /// # Errors
    /// As [`Ledger::take`].
    pub async fn charge(&self, ca: &str, charge: &Charge) -> Result<(), StoreError> {
        let charges = std::slice::from_ref(charge);
        self.update(ca, charges, Limit::charge).await
    }

    /// Closes each bucket until this Unix second, as after a 429 with
    /// `Retry-After`.
    ///
    /// # Errors
    /// As [`Ledger::take`].
    pub async fn close(&self, ca: &str, charges: &[Charge], until: i64) -> Result<(), StoreError> {
        self.update(ca, charges, |limit, bucket, now_ms| {
            limit.close_until(bucket, now_ms, until);
        })
        .await
    }

    /// Changes each bucket by itself.
    async fn update(
        &self,
        ca: &str,
        charges: &[Charge],
        update: impl Fn(Limit, &mut Bucket, i64),
    ) -> Result<(), StoreError> {
        let done = self.change(ca, charges, |buckets, now_ms| {
            for Stored { limit, bucket, .. } in buckets {
                update(*limit, bucket, now_ms);
            }
            Ok(())
        });
        done.await.map(|_| ())
    }

    /// Reads the buckets, changes them, and writes those that differ. Begins again
    /// if others wrote one meanwhile; writes nothing after a refusal.
    async fn change<T>(
        &self,
        ca: &str,
        charges: &[Charge],
        change: impl Fn(&mut [Stored], i64) -> Result<T, RetryAt>,
    ) -> Result<Result<T, RetryAt>, StoreError> {
        let turn = self.turn(ca);
        let _turn = turn.lock().await;
        for attempt in 0..MAX_ATTEMPTS {
            if attempt > 0 {
                tokio::time::sleep(pause(attempt)).await;
            }
            let mut buckets = self.read(ca, charges).await?;
            let now_ms = self.clock.now_ms();
            let before: Vec<_> = buckets.iter().map(|one| one.bucket).collect();
            let done = match change(&mut buckets, now_ms) {
                Ok(done) => done,
                Err(refused) => return Ok(Err(refused)),
            };
            let changed = buckets.into_iter().zip(before);
            let changed = changed.filter(|(one, before)| one.differs(*before, now_ms));
            let writes: Vec<_> = changed.map(|(one, _)| one.write(now_ms)).collect();
            if writes.is_empty() {
                return Ok(Ok(done));
            }
            if self.sealer.try_write(writes).await? {
                return Ok(Ok(done));
            }
        }
        Err(StoreError::Overloaded)
    }

    /// Reads each bucket once; one that is not there is full.
    async fn read(&self, ca: &str, charges: &[Charge]) -> Result<Vec<Stored>, StoreError> {
        let mut buckets: Vec<Stored> = Vec::with_capacity(charges.len());
        for charge in charges {
            let id = DocumentId::new(DocumentKind::ACME_QUOTA, format!("{ca}/{}", charge.key));
            if buckets.iter().any(|one| one.id == id) {
                continue;
            }
            let (bucket, expect) = match self.sealer.document(&id).await? {
                Some(document) => (bucket(&document)?, Precondition::Version(document.version)),
                None => (Bucket::default(), Precondition::Absent),
            };
            buckets.push(Stored {
                id,
                limit: charge.limit,
                bucket,
                expect,
            });
        }
        Ok(buckets)
    }

    fn turn(&self, ca: &str) -> Arc<tokio::sync::Mutex<()>> {
        let mut locks = lock(&self.locks);
        Arc::clone(locks.entry(ca.to_owned()).or_default())
    }
}

/// Bucket as it was read.
struct Stored {
    id: DocumentId,
    limit: Limit,
    bucket: Bucket,
    expect: Precondition,
}

impl Stored {
    /// Tells whether the bucket has to be written. A bucket that is missing and still full
    /// has not.
    fn differs(&self, before: Bucket, now_ms: i64) -> bool {
        let is_new = self.expect == Precondition::Absent;
        self.bucket != before && !(is_new && self.bucket.full_at_ms() <= now_ms)
    }

    /// Makes the write that requires the version that was read.
    fn write(self, now_ms: i64) -> Write<Secret> {
        let content = self.bucket.to_stored().map(i64::to_be_bytes).concat();
        let mut document = Document::new(self.id, Secret::new(content));
        let full_at = self.bucket.full_at_ms().max(now_ms);
        document.expires = Some(full_at.div_euclid(1000) + 1 + MARGIN);
        Write::PutDocument(document, self.expect)
    }
}

fn take_each(buckets: &mut [Stored], now_ms: i64, share: Share) -> Result<(), RetryAt> {
    let refusals = buckets.iter_mut().filter_map(|one| {
        let taken = one.limit.take(&mut one.bucket, now_ms, 1, share);
        taken.err()
    });
    let latest = refusals.max_by_key(|RetryAt(at)| *at);
    latest.map_or(Ok(()), Err)
}

fn bucket(document: &Document<Secret>) -> Result<Bucket, StoreError> {
    let (numbers, rest) = document.bytes.expose().as_chunks::<8>();
    match (numbers, rest) {
        ([one, two, three], []) => {
            let stored = [one, two, three].map(|number| i64::from_be_bytes(*number));
            Ok(Bucket::from_stored(stored))
        }
        _ => {
            let corrupt = format!("{} is no bucket", document.id);
            Err(StoreError::Corrupt(corrupt.into()))
        }
    }
}

/// Draws a pause; the longest possible one doubles with each attempt, since there
/// may be many servers.
fn pause(attempt: u32) -> Duration {
    let drawn = f64::from(u32::from_be_bytes(random())) / f64::from(u32::MAX);
    FIRST_PAUSE.saturating_mul(1 << attempt).mul_f64(drawn)
}

/// The pauses are 2.5 s together on average.
const MAX_ATTEMPTS: u32 = 10;
const FIRST_PAUSE: Duration = Duration::from_millis(5);
/// Seconds for which a full bucket stays. A bucket that is made anew may get a
/// version that was used before; nobody who read that one still writes by then.
const MARGIN: i64 = 60;

#[cfg(test)]
mod tests;
