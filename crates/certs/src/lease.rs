//! Leases: rights to do something alone for a while.

use std::time::Duration;

use crate::clock::Clock;
use crate::credential::Secret;
use crate::seal::Sealer;
use crate::store::{Document, DocumentId, DocumentKind, Precondition, Result, Write};

/// Right to do something alone for a while: a document that is not announced, expires, and
/// has the holder's random name for content.
///
/// - Of many that take a lease at once, one gets it. The next one gets it when it was
///   released or has expired, in whole seconds.
/// - The holder's clock says when it expires, the store's clock whether it has. If they
///   differ by more than its duration, two may hold it. A lease saves work that would be
///   done twice: a write under it needs a precondition of its own.
#[derive(Debug)]
pub struct Lease {
    sealer: Sealer,
    id: DocumentId,
    holder: Secret,
    ttl: Duration,
    clock: Clock,
}

impl Lease {
    /// Takes the lease of this name for `ttl`; none while another holds it.
    ///
    /// # Errors
    /// As [`Sealer::write`].
    ///
    /// # Panics
    /// If the system gives no random bytes.
    pub async fn take(
        sealer: &Sealer,
        name: String,
        ttl: Duration,
        clock: &Clock,
    ) -> Result<Option<Self>> {
        let lease = Self {
            sealer: sealer.clone(),
            id: DocumentId::new(DocumentKind::LEASE, name),
            holder: Secret::new(crate::random::<16>().to_vec()),
            ttl,
            clock: clock.clone(),
        };
        let taken = lease.put(Precondition::Absent).await?;
        Ok(taken.then_some(lease))
    }

    /// Prolongs the lease, or takes it again if it has expired. Returns false if another
    /// has taken it.
    ///
    /// # Errors
    /// As [`Sealer::write`].
    pub async fn prolong(&self) -> Result<bool> {
        match self.sealer.document(&self.id).await? {
            None => self.put(Precondition::Absent).await,
            Some(held) if held.bytes == self.holder => {
                self.put(Precondition::Version(held.version)).await
            }
            Some(_) => Ok(false),
        }
    }

    /// Releases the lease, unless another has taken it.
    ///
    /// # Errors
    /// As [`Sealer::write`]; the lease then expires.
    pub async fn release(self) -> Result<()> {
        let held = self.sealer.document(&self.id).await?;
        if let Some(held) = held.filter(|held| held.bytes == self.holder) {
            let expect = Precondition::Version(held.version);
            let remove = Write::RemoveDocument(self.id.clone(), expect);
            self.sealer.try_write(vec![remove]).await?;
        }
        Ok(())
    }

    /// Returns false if another was faster.
    async fn put(&self, expect: Precondition) -> Result<bool> {
        let mut document = Document::new(self.id.clone(), self.holder.clone());
        let ttl = i64::try_from(self.ttl.as_secs()).unwrap_or(i64::MAX);
        document.expires = Some(self.clock.now().saturating_add(ttl));
        let put = Write::PutDocument(document, expect);
        self.sealer.try_write(vec![put]).await
    }
}
