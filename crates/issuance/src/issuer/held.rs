//! Claim of this process while it works on a lineage.

use sekisho_certs::Claim;
use tokio::sync::Semaphore;

/// Claim that is prolonged until the last write of the work, which releases it.
#[derive(Debug)]
pub(super) struct Held {
    /// Fence of all writes.
    pub(super) epoch: u64,
    /// Semaphore whose one permit is the right to prolong. It is closed before the
    /// last write: a prolonging behind that write would claim the lineage anew.
    prolonging: Semaphore,
}

impl Held {
    /// Holds a claim.
    pub(super) fn new(claim: &Claim) -> Self {
        Self {
            epoch: claim.epoch,
            prolonging: Semaphore::new(1),
        }
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
