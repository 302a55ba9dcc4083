//! A catalog in memory: for tests, and the shortest reading of the contract.

mod lineages;
mod list;
mod state;

use std::future::ready;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::sleep;

use self::state::State;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::record::{HostRecord, Tenant};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, CredentialFilter, CredentialPage,
    Document, DocumentId, DocumentKind, HostFilter, HostPage, LogId, LogPosition, Result,
    StoreError, Write,
};

/// A catalog that is gone with the process. Readers see whole states: a write
/// makes a new one and puts it in place of the old, so each costs as much as
/// there are entries.
#[derive(Debug)]
pub struct Memory {
    id: CatalogId,
    clock: Clock,
    state: Mutex<Arc<State>>,
    /// Writes that are still to fail.
    failing: AtomicUsize,
    /// Claims that are still to fail.
    failing_claims: AtomicUsize,
    /// Milliseconds between a write and its answer.
    delay_ms: AtomicU64,
    last_batch: Mutex<Option<Batch>>,
    changed: watch::Sender<()>,
}

impl Memory {
    /// Makes an empty catalog that keeps as many changes as SQLite does.
    #[must_use]
    pub fn new(clock: Clock) -> Self {
        Self::keeping(clock, 1_000_000)
    }

    /// Makes an empty catalog that keeps `keep` changes.
    #[must_use]
    pub fn keeping(clock: Clock, keep: u64) -> Self {
        Self {
            id: CatalogId(random()),
            clock,
            state: Mutex::new(Arc::new(State::new(LogId(random()), keep))),
            failing: AtomicUsize::new(0),
            failing_claims: AtomicUsize::new(0),
            delay_ms: AtomicU64::new(0),
            last_batch: Mutex::default(),
            changed: watch::Sender::new(()),
        }
    }

    fn state(&self) -> Arc<State> {
        Arc::clone(&self.lock())
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Arc<State>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts the next state in place, unless making it failed.
    fn advance<T>(&self, change: impl FnOnce(&mut State) -> Result<T>) -> Result<T> {
        let mut current = self.lock();
        let mut next = State::clone(&current);
        let outcome = change(&mut next)?;
        let is_announced = next.head() != current.head();
        *current = Arc::new(next);
        drop(current);
        if is_announced {
            self.changed.send_replace(());
        }
        Ok(outcome)
    }
}

impl Memory {
    /// Lets the next writes fail as those to a catalog that is out of reach. Leases are
    /// taken all the same.
    pub fn fail_writes(&self, count: usize) {
        self.failing.store(count, Ordering::SeqCst);
    }

    /// Lets the next claims fail as those of a catalog that is out of reach.
    pub fn fail_claims(&self, count: usize) {
        self.failing_claims.store(count, Ordering::SeqCst);
    }

    /// Lets answers of writes arrive this much later than the writes happen.
    pub fn delay_answers(&self, by: Duration) {
        let by = u64::try_from(by.as_millis()).unwrap_or(u64::MAX);
        self.delay_ms.store(by, Ordering::SeqCst);
    }

    /// Returns the batch that was last to be written.
    #[must_use]
    pub fn last_batch(&self) -> Option<Batch> {
        self.last_batch.lock().ok()?.clone()
    }

    /// Returns a function that goes back to the present state, log and all, as
    /// a database does that is restored from a snapshot of its volume.
    pub fn saved(&self) -> impl FnOnce() + use<'_> {
        let saved = self.state();
        move || *self.lock() = saved
    }
}

impl ChangeLog for Memory {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move { Ok(self.state().head()) })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move { Ok(self.state().changes(after, limit)) })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        let mut changes = self.changed.subscribe();
        Box::pin(async move {
            // The sender lives as long as this catalog.
            let _ = changes.changed().await;
        })
    }
}

impl Catalog for Memory {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(ready(Ok(self.id)))
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(async move { self.state().find(name) })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            if !is_lease(&batch) {
                fail(&self.failing)?;
            }
            *self.last_batch.lock().expect("no panic") = Some(batch.clone());
            let mark = u64::from_be_bytes(random());
            let written = self.advance(|state| state.write(batch, mark, self.clock.now_ms()));
            let delay = Duration::from_millis(self.delay_ms.load(Ordering::SeqCst));
            if !delay.is_zero() {
                sleep(delay).await;
            }
            written
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        Box::pin(async move { Ok(self.state().hosts(patterns)) })
    }

    fn list_hosts<'a>(
        &'a self,
        filter: &'a HostFilter,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<HostPage>> {
        Box::pin(async move { Ok(self.state().list_hosts(filter, after, limit)) })
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a Tenant>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Tenant>>> {
        Box::pin(async move { Ok(self.state().tenants(after, limit)) })
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        Box::pin(async move { Ok(self.state().hosts_of(id, after, limit)) })
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        Box::pin(async move { Ok(self.state().credentials(ids)) })
    }

    fn list_credentials<'a>(
        &'a self,
        filter: &'a CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CredentialPage>> {
        Box::pin(async move { Ok(self.state().list_credentials(filter, after, limit)) })
    }

    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        Box::pin(async move { Ok(self.state().document(id, self.clock.now()).cloned()) })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        Box::pin(async move {
            let now = self.clock.now();
            Ok(self.state().list_documents(kind, after, limit, now))
        })
    }

    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        Box::pin(async move { Ok(self.state().next_document_kind(after)) })
    }

    fn claim<'a>(
        &'a self,
        which: ToClaim,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Vec<(LineageName, Claim)>>> {
        let now_ms = self.clock.now_ms();
        Box::pin(async move {
            fail(&self.failing_claims)?;
            self.advance(|state| Ok(state.claim(&which, holder, ttl, now_ms)))
        })
    }

    fn lineages<'a>(
        &'a self,
        names: &'a [LineageName],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let is_asked = |one: &Lineage<_>| names.contains(&one.name);
        let found = self.state().lineages(self.clock.now_ms(), is_asked);
        Box::pin(ready(Ok(found)))
    }

    fn lineages_of<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let is_asked = |one: &Lineage<_>| one.credential.is_some_and(|id| ids.contains(&id));
        let found = self.state().lineages(self.clock.now_ms(), is_asked);
        Box::pin(ready(Ok(found)))
    }

    fn list_lineages<'a>(
        &'a self,
        which: Listed,
        after: Option<&'a LineageName>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let is_asked = |one: &Lineage<_>| {
            let is_of = match which {
                Listed::All => true,
                Listed::Failing => one.attempts > 0,
                Listed::Without => one.credential.is_none(),
            };
            is_of && after.is_none_or(|after| one.name > *after)
        };
        let mut found = self.state().lineages(self.clock.now_ms(), is_asked);
        found.truncate(limit);
        Box::pin(ready(Ok(found)))
    }

    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>> {
        Box::pin(ready(Ok(self.state().lineages.len() as u64)))
    }

    fn count_due(&self, most: usize) -> BoxFuture<'_, Result<u64>> {
        let now = self.clock.now();
        let is_due = |one: &Lineage<_>| one.due.is_some_and(|due| due <= now);
        let due = self.state().lineages(self.clock.now_ms(), is_due);
        Box::pin(ready(Ok(due.len().min(most) as u64)))
    }
}

/// Tells whether a batch takes, prolongs or releases a lease.
fn is_lease(batch: &Batch) -> bool {
    let (writes, _) = batch.clone().into_parts();
    writes.iter().any(|write| match write {
        Write::PutDocument(document, _) => document.id.kind == DocumentKind::LEASE,
        Write::RemoveDocument(id, _) => id.kind == DocumentKind::LEASE,
        _ => false,
    })
}

/// Fails as long as calls are still to fail.
fn fail(calls: &AtomicUsize) -> Result<()> {
    let order = Ordering::SeqCst;
    match calls.fetch_update(order, order, |left| left.checked_sub(1)) {
        Ok(_) => Err(StoreError::Unavailable("a test wants it so".into())),
        Err(_) => Ok(()),
    }
}

fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    bytes
}
