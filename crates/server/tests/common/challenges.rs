//! Challenges in a catalog that counts, holds and fails reads.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::seal::{KeyRing, MasterKey};
use sekisho_certs::store::{
    BoxFuture, CatalogId, ChangePage, CredentialPage, Document, DocumentId, DocumentKind, HostPage,
    LogPosition, Precondition, Result,
};
use sekisho_certs::{
    Answer, Batch, Catalog, ChallengeKind, Challenges, ChangeLog, Clock, CredentialFilter,
    CredentialId, HostFilter, HostName, HostPattern, HostRecord, KeyAuthorization, SealedBytes,
    Sealer, StoreError, StoredCredential, Tenant,
};
use sekisho_testkit::Memory;
use tokio::sync::Semaphore;

/// Challenges of the test's server, and a catalog that others write.
pub struct Orders {
    pub catalog: Arc<Counted>,
    /// The server of the test.
    pub served: Arc<Challenges>,
    sealer: Sealer,
}

impl Orders {
    pub async fn new() -> Self {
        let catalog = Arc::new(Counted {
            inner: Memory::new(Clock::System),
            reads: AtomicUsize::new(0),
            failing: AtomicBool::new(false),
            held: Semaphore::new(Semaphore::MAX_PERMITS),
        });
        let ring = KeyRing::new(MasterKey::new(&[7; 32]));
        let sealer = Sealer::create(Arc::clone(&catalog) as Arc<dyn Catalog>, ring).await;
        let sealer = sealer.unwrap();
        sealer.ensure_open().await.unwrap();
        catalog.reads.store(0, Ordering::SeqCst);
        Self {
            served: Arc::new(Challenges::new(sealer.clone(), Clock::System)),
            catalog,
            sealer,
        }
    }

    /// Has the other server write a challenge to the catalog.
    pub async fn put(&self, kind: ChallengeKind, key: &str, answer: &str) {
        let expires = Clock::System.now() + 600;
        let answer = KeyAuthorization::new(answer);
        let put = Challenges::write(kind, key, &answer, expires, Precondition::Any);
        self.sealer.write(vec![put]).await.unwrap();
    }
}

/// Catalog in memory whose documents can be out of reach.
#[derive(Debug)]
pub struct Counted {
    inner: Memory,
    reads: AtomicUsize,
    failing: AtomicBool,
    held: Semaphore,
}

impl Counted {
    /// Returns how many documents were asked for.
    pub fn reads(&self) -> usize {
        self.reads.load(Ordering::SeqCst)
    }

    pub fn fail(&self, failing: bool) {
        self.failing.store(failing, Ordering::SeqCst);
    }

    pub fn hold(&self) {
        self.held.forget_permits(usize::MAX);
    }
}

macro_rules! passed_on {
    ($($name:ident($($arg:ident: $kind:ty),*) -> $gives:ty;)*) => {$(
        fn $name<'a>(&'a self, $($arg: $kind),*) -> BoxFuture<'a, Result<$gives>> {
            self.inner.$name($($arg),*)
        }
    )*};
}

macro_rules! unexpected {
    ($($name:ident($($kind:ty),*) -> $gives:ty;)*) => {$(
        fn $name<'a>(&'a self, $(_: $kind),*) -> BoxFuture<'a, Result<$gives>> {
            panic!("unexpected call of {}", stringify!($name))
        }
    )*};
}

impl ChangeLog for Counted {
    unexpected! {
        head() -> LogPosition;
        changes(u64, usize) -> ChangePage;
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        panic!("unexpected call of changed")
    }
}

impl Catalog for Counted {
    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        Box::pin(async move {
            self.reads.fetch_add(1, Ordering::SeqCst);
            self.held.acquire().await.unwrap().forget();
            if self.failing.load(Ordering::SeqCst) {
                return Err(StoreError::Unavailable("the test says so".into()));
            }
            self.inner.document(id).await
        })
    }

    passed_on! {
        id() -> CatalogId;
        write(batch: Batch) -> u64;
        list_credentials(filter: &'a CredentialFilter, after: Option<(i64, CredentialId)>, limit: usize) -> CredentialPage;
    }

    unexpected! {
        find(&'a HostName) -> Answer<SealedBytes>;
        hosts(&'a [HostPattern]) -> Vec<HostRecord>;
        list_hosts(&'a HostFilter, Option<&'a HostPattern>, usize) -> HostPage;
        tenants(Option<&'a Tenant>, usize) -> Vec<Tenant>;
        hosts_of(CredentialId, Option<&'a HostPattern>, usize) -> Vec<HostPattern>;
        credentials(&'a [CredentialId]) -> Vec<StoredCredential<SealedBytes>>;
        list_documents(&'a DocumentKind, Option<&'a str>, usize) -> Vec<Document<SealedBytes>>;
        next_document_kind(&'a str) -> Option<DocumentKind>;
        claim(ToClaim, &'a str, Duration) -> Vec<(LineageName, Claim)>;
        lineages(&'a [LineageName]) -> Vec<Lineage<SealedBytes>>;
        lineages_of(&'a [CredentialId]) -> Vec<Lineage<SealedBytes>>;
        list_lineages(Listed, Option<&'a LineageName>, usize) -> Vec<Lineage<SealedBytes>>;
        count_lineages() -> u64;
        count_due(usize) -> u64;
    }
}
