//! A store whose calls are bounded in time and number, and which rests while
//! it fails.

mod gate;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, timeout_at};

use self::gate::Gate;
use crate::backoff::Backoff;
use crate::breaker::{Breaker, BreakerOpen};
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::{Batch, OpenKey};
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, Document, Lease, LogPosition,
    Result, Store, StoreError,
};

/// Bounds every call to a store: a deadline, a cap on what is in flight, a
/// bounded queue before it, and a breaker. A call that ran out of time may
/// still have its effect: whether a write happened, the log tells.
pub struct Limited<S: ?Sized> {
    deadline: Duration,
    gate: Gate,
    breaker: Breaker,
    inner: Arc<S>,
}

impl<S: ?Sized> Limited<S> {
    /// Wraps a store.
    #[must_use]
    pub fn new(inner: Arc<S>, limits: &Limits) -> Self {
        Self {
            deadline: limits.deadline,
            gate: Gate::new(limits.in_flight, limits.waiting),
            breaker: Breaker::new(limits.failures, limits.backoff),
            inner,
        }
    }

    /// The deadline includes the wait for a turn.
    async fn call<T>(&self, call: impl Future<Output = Result<T>> + Send) -> Result<T> {
        let deadline = Instant::now() + self.deadline;
        let open = |open: BreakerOpen| StoreError::Unavailable(open.to_string().into());
        let permit = self.breaker.allow().map_err(open)?;
        let turn = self.gate.enter();
        // A full house says nothing of the store: the breaker stays as it is.
        let _turn = timeout_at(deadline, turn)
            .await
            .map_err(|_| StoreError::Overloaded)??;
        let outcome = timeout_at(deadline, call)
            .await
            .unwrap_or(Err(StoreError::TimedOut(self.deadline)));
        match &outcome {
            Err(StoreError::Unavailable(_) | StoreError::TimedOut(_)) => permit.failed(),
            Err(StoreError::Overloaded) => {}
            Ok(_)
            | Err(
                StoreError::Failed(_)
                | StoreError::Corrupt(_)
                | StoreError::Conflict(_)
                | StoreError::Refused(_),
            ) => permit.succeeded(),
        }
        outcome
    }
}

/// The bounds of [`Limited`].
#[derive(Clone, Debug)]
pub struct Limits {
    /// How long one call may take, its wait for a turn included.
    pub deadline: Duration,
    /// How many calls run at once.
    pub in_flight: usize,
    /// How many wait for a turn; one more is overloaded.
    pub waiting: usize,
    /// After how many failures in a row the store is left alone.
    pub failures: u32,
    /// For how long.
    pub backoff: Backoff,
}

impl Default for Limits {
    /// For a store that answers within milliseconds: a handshake's own
    /// deadline is not much longer than a call's.
    fn default() -> Self {
        Self {
            deadline: Duration::from_secs(2),
            in_flight: 256,
            waiting: 1024,
            failures: 10,
            backoff: Backoff::new(Duration::from_millis(100), Duration::from_secs(5)),
        }
    }
}

impl<S: fmt::Debug + ?Sized> fmt::Debug for Limited<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Limited")
            .field("deadline", &self.deadline)
            .field("breaker", &self.breaker)
            .field("inner", &&*self.inner)
            .finish_non_exhaustive()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Store + ?Sized> Store for Limited<S> {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<OpenKey>>> {
        Box::pin(self.call(self.inner.find(name)))
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Catalog + ?Sized> ChangeLog for Limited<S> {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(self.call(self.inner.head()))
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(self.call(self.inner.changes(after, limit)))
    }

    /// Not a call: it waits for as long as nothing changes.
    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }
}

#[deny(clippy::missing_trait_methods)]
impl<S: Catalog + ?Sized> Catalog for Limited<S> {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(self.call(self.inner.id()))
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.call(self.inner.find(name)))
    }

    fn find_past_level<'a>(
        &'a self,
        name: &'a HostName,
    ) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.call(self.inner.find_past_level(name)))
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        Box::pin(self.call(self.inner.write(batch)))
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        Box::pin(self.call(self.inner.hosts(patterns)))
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        Box::pin(self.call(self.inner.list_hosts(after, limit)))
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        Box::pin(self.call(self.inner.hosts_of(id, after, limit)))
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        Box::pin(self.call(self.inner.credentials(ids)))
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential<SealedBytes>>>> {
        Box::pin(self.call(self.inner.list_credentials(after, limit)))
    }

    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        Box::pin(self.call(self.inner.document(kind, key)))
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        Box::pin(self.call(self.inner.list_documents(kind, after, limit)))
    }

    fn kind_after<'a>(&'a self, after: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        Box::pin(self.call(self.inner.kind_after(after)))
    }

    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>> {
        Box::pin(self.call(self.inner.lease(name, holder, ttl)))
    }

    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>> {
        Box::pin(self.call(self.inner.release(name, holder)))
    }
}

#[cfg(test)]
mod tests;
