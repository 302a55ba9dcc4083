//! A catalog whose answers can be held back and made to fail.

use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::record::Tenant;
use sekisho_certs::store::{
    CredentialFilter, CredentialPage, DocumentId, DocumentKind, HostFilter, HostPage,
};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::sync::Semaphore;

use super::*;
use sekisho_testkit::Memory;

#[derive(Debug)]
pub(super) struct Scripted {
    inner: Arc<Memory>,
    /// Each answer to a name takes one permit, after it was read.
    pub(super) gate: Semaphore,
    failing: AtomicBool,
    finds: AtomicUsize,
    calls: AtomicUsize,
}

impl Scripted {
    pub(super) fn on(inner: &Arc<Memory>) -> Arc<Self> {
        Arc::new(Self {
            inner: Arc::clone(inner),
            gate: Semaphore::new(Semaphore::MAX_PERMITS),
            failing: AtomicBool::new(false),
            finds: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
        })
    }

    /// Makes every call fail, as if it could not be reached, or not.
    pub(super) fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    pub(super) fn finds(&self) -> usize {
        self.finds.load(Ordering::SeqCst)
    }

    /// Calls of any kind.
    pub(super) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }

    fn reached(&self) -> Result<()> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        match self.failing.load(Ordering::SeqCst) {
            true => Err(StoreError::Unavailable("as the test wants".into())),
            false => Ok(()),
        }
    }
}

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $gives:ty;)*) => {$(
        fn $name<'a>(&'a self, $($arg: $kind),*) -> BoxFuture<'a, Result<$gives>> {
            Box::pin(async move {
                self.reached()?;
                self.inner.$name($($arg),*).await
            })
        }
    )*};
}

/// A catalog whose calls go to its `inner` one, if that is `reached`, but for
/// those that are given.
macro_rules! catalog_passed_on {
    ($wrapper:ty { $($given:tt)* }) => {
        impl ChangeLog for $wrapper {
            fn changed(&self) -> BoxFuture<'_, ()> {
                self.inner.changed()
            }

            passed_on! {
                head() -> LogPosition;
                changes(after: u64, limit: usize) -> ChangePage;
            }
        }

        impl Catalog for $wrapper {
            $($given)*

            passed_on! {
                id() -> CatalogId;
                write(batch: Batch) -> u64;
                hosts(patterns: &'a [HostPattern]) -> Vec<HostRecord>;
                list_hosts(filter: &'a HostFilter, after: Option<&'a HostPattern>, limit: usize) -> HostPage;
                tenants(after: Option<&'a Tenant>, limit: usize) -> Vec<Tenant>;
                hosts_of(id: CredentialId, after: Option<&'a HostPattern>, limit: usize) -> Vec<HostPattern>;
                credentials(ids: &'a [CredentialId]) -> Vec<StoredCredential<SealedBytes>>;
                list_credentials(filter: &'a CredentialFilter, after: Option<(i64, CredentialId)>, limit: usize) -> CredentialPage;
                document(id: &'a DocumentId) -> Option<Document<SealedBytes>>;
                list_documents(kind: &'a DocumentKind, after: Option<&'a str>, limit: usize) -> Vec<Document<SealedBytes>>;
                next_document_kind(after: &'a str) -> Option<DocumentKind>;
                claim(which: ToClaim, holder: &'a str, ttl: Duration) -> Vec<(LineageName, Claim)>;
                lineages(names: &'a [LineageName]) -> Vec<Lineage<SealedBytes>>;
                lineages_of(ids: &'a [CredentialId]) -> Vec<Lineage<SealedBytes>>;
                list_lineages(which: Listed, after: Option<&'a LineageName>, limit: usize) -> Vec<Lineage<SealedBytes>>;
                count_lineages() -> u64;
                count_due(most: usize) -> u64;
            }
        }
    };
}

catalog_passed_on!(Scripted {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(async move {
            self.finds.fetch_add(1, Ordering::SeqCst);
            self.reached()?;
            let answer = self.inner.find(name).await;
            self.gate.acquire().await.unwrap().forget();
            answer
        })
    }
});
