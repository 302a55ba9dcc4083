//! Claim of this process while it works on a lineage.

use sekisho_certs::{Claim, Clock};
use tokio::sync::Semaphore;

use super::claimed::CLAIM;

/// Claim that is prolonged until the last write of the work, which releases it.
#[derive(Debug)]
pub(super) struct Held {
    /// Fence of all writes.
    pub(super) epoch: u64,
    /// Milliseconds by which the store's clock is ahead of this process's.
    ahead_ms: i64,
    /// Semaphore whose one permit is the right to prolong. It is closed before the
    /// last write: a prolonging behind that write would claim the lineage anew.
    prolonging: Semaphore,
}

impl Held {
    /// Holds a claim that was taken just now.
    pub(super) fn new(claim: &Claim, clock: &Clock) -> Self {
        let length = i64::try_from(CLAIM.as_millis()).expect("a minute");
        Self {
            epoch: claim.epoch,
            ahead_ms: claim.until_ms - length - clock.now_ms(),
            prolonging: Semaphore::new(1),
        }
    }

    /// Returns the store's time, seconds since the Unix epoch: what is written is for all
    /// servers, and this one's clock may be wrong.
    pub(super) fn now(&self, clock: &Clock) -> i64 {
        (clock.now_ms() + self.ahead_ms).div_euclid(1000)
    }

    /// Prolongs the claim by this call, whole or not at all; none once it has ended.
    pub(super) async fn prolong<T>(&self, call: impl Future<Output = T>) -> Option<T> {
        let _permit = self.prolonging.acquire().await.ok()?;
        Some(call.await)
    }

    /// Ends the prolonging, after the call that is under way.
    pub(super) async fn end(&self) {
        let permit = self.prolonging.acquire().await;
        self.prolonging.close();
        drop(permit);
    }
}
