//! A catalog that fails, waits or forgets its log when a test says so.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::RwLock;

use super::*;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::HostPattern;
use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::record::Tenant;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    BoxFuture, CatalogId, ChangeLog, ChangePage, CredentialFilter, CredentialPage, Document,
    DocumentId, HostFilter, HostPage, LogId, Result,
};

#[derive(Debug)]
pub(crate) struct Switch {
    inner: Mutex<Arc<dyn Catalog>>,
    says: Mutex<Option<StoreError>>,
    /// Answers of `find` wait while it is held.
    pub(crate) gate: RwLock<()>,
    /// Answers of `document` wait while it is held.
    pub(crate) documents: RwLock<()>,
    /// As after a restore.
    pub(crate) other_log: AtomicBool,
    /// Answers of the next calls of `find`, as of a standby that lags.
    pub(crate) lagging: Mutex<Vec<Answer<SealedBytes>>>,
}

impl Switch {
    pub(crate) fn new(inner: Arc<dyn Catalog>) -> Self {
        Self {
            inner: Mutex::new(inner),
            says: Mutex::default(),
            gate: RwLock::default(),
            documents: RwLock::default(),
            other_log: AtomicBool::new(false),
            lagging: Mutex::default(),
        }
    }

    /// Sets the error of every call from now on.
    pub(crate) fn say(&self, error: Option<StoreError>) {
        *self.says.lock().unwrap() = error;
    }

    pub(crate) fn is_open(&self) -> bool {
        self.says.lock().unwrap().is_none()
    }

    /// Another catalog stands in the place of this one from now on.
    pub(crate) fn replace(&self, by: Arc<dyn Catalog>) {
        *self.inner.lock().unwrap() = by;
    }

    fn inner(&self) -> Arc<dyn Catalog> {
        Arc::clone(&self.inner.lock().unwrap())
    }

    async fn call<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let says = self.says.lock().unwrap().clone();
        match says {
            Some(error) => Err(error),
            None => call.await,
        }
    }

    fn log(&self, log: LogId) -> LogId {
        match self.other_log.load(Ordering::SeqCst) {
            true => LogId([0; 16]),
            false => log,
        }
    }
}

impl ChangeLog for Switch {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move {
            let mut position = self.call(self.inner().head()).await?;
            position.log = self.log(position.log);
            Ok(position)
        })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            let mut page = self.call(self.inner().changes(after, limit)).await?;
            page.log = self.log(page.log);
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move { self.inner().changed().await })
    }
}

impl Catalog for Switch {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(async move { self.call(self.inner().id()).await })
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(async move {
            let old = self.lagging.lock().unwrap().pop();
            let answer = match old {
                Some(old) => Ok(old),
                None => self.call(self.inner().find(name)).await,
            };
            let _open = self.gate.read().await;
            let mut answer = answer?;
            if let Some(position) = &mut answer.read_at {
                position.log = self.log(position.log);
            }
            Ok(answer)
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move { self.call(self.inner().write(batch)).await })
    }

    fn hosts<'a>(&'a self, _: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        unreachable!("nobody asks")
    }

    fn list_hosts<'a>(
        &'a self,
        _: &'a HostFilter,
        _: Option<&'a HostPattern>,
        _: usize,
    ) -> BoxFuture<'a, Result<HostPage>> {
        unreachable!("nobody asks")
    }

    fn tenants<'a>(
        &'a self,
        _: Option<&'a Tenant>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Tenant>>> {
        unreachable!("nobody asks")
    }

    fn hosts_of<'a>(
        &'a self,
        _: CredentialId,
        _: Option<&'a HostPattern>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        unreachable!("nobody asks")
    }

    fn credentials<'a>(
        &'a self,
        _: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        unreachable!("nobody asks")
    }

    fn list_credentials<'a>(
        &'a self,
        filter: &'a CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CredentialPage>> {
        Box::pin(async move {
            let inner = self.inner();
            self.call(inner.list_credentials(filter, after, limit))
                .await
        })
    }

    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        Box::pin(async move {
            let document = self.call(self.inner().document(id)).await;
            let _open = self.documents.read().await;
            document
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        Box::pin(async move {
            let inner = self.inner();
            let _open = self.documents.read().await;
            self.call(inner.list_documents(kind, after, limit)).await
        })
    }

    fn next_document_kind<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        unreachable!("nobody asks")
    }

    fn claim<'a>(
        &'a self,
        _: ToClaim,
        _: &'a str,
        _: Duration,
    ) -> BoxFuture<'a, Result<Vec<(LineageName, Claim)>>> {
        unreachable!("nobody asks")
    }

    fn lineages<'a>(
        &'a self,
        _: &'a [LineageName],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        unreachable!("nobody asks")
    }

    fn lineages_of<'a>(
        &'a self,
        _: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        unreachable!("nobody asks")
    }

    fn list_lineages<'a>(
        &'a self,
        _: Listed,
        _: Option<&'a LineageName>,
        _: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        unreachable!("nobody asks")
    }

    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>> {
        unreachable!("nobody asks")
    }

    fn count_due(&self, _: usize) -> BoxFuture<'_, Result<u64>> {
        unreachable!("nobody asks")
    }
}
