//! Places of clients that wait for a certificate.

use std::sync::Arc;
use std::time::Duration;

use sekisho_certs::Tenant;

use super::{Denied, FairSemaphore};
use crate::settings::CertificateWaits;

/// Bounded number of places for handshakes and requests that wait until a
/// certificate is obtained, whether they started the load or joined it. When all
/// are taken, the newest of the tenant with most of them loses its place to a
/// tenant with fewer. All names without a record share the places of one tenant:
/// anybody can make up such names.
#[derive(Debug)]
pub(crate) struct Places {
    /// Has no permit to give: its queue is the places.
    queue: Arc<FairSemaphore<Option<Tenant>>>,
    /// Time that the holder of a place has from then on for its handshake.
    pub(crate) time: Duration,
}

impl Places {
    pub(crate) fn new(limits: CertificateWaits) -> Self {
        Self {
            queue: Arc::new(FairSemaphore::new(0, 0, limits.places)),
            time: limits.time,
        }
    }

    /// Waits for `outcome` in a place of `tenant`. Dropping the future frees the
    /// place.
    ///
    /// # Errors
    /// [`Denied::Full`], if there is no place, or this one is lost.
    pub(crate) async fn wait<T>(
        &self,
        tenant: Option<Tenant>,
        outcome: impl Future<Output = T>,
    ) -> Result<T, Denied> {
        tokio::select! {
            biased;
            outcome = outcome => Ok(outcome),
            _ = FairSemaphore::enter(&self.queue, tenant) => Err(Denied::Full),
        }
    }
}
