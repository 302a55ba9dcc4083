//! The calls: what passes through, and what is noted on its way.

use std::time::Duration;

use super::Layered;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, Document, Lease, LogPosition,
    Result,
};

#[deny(clippy::missing_trait_methods)]
impl ChangeLog for Layered {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move {
            let shared = &self.shared;
            let before = shared.marks.mark();
            let position = shared.catalog.head().await;
            let position = position.inspect_err(|_| shared.follow(false))?;
            if shared.marks.saw(before.as_ref(), position, position.number) {
                shared.lose();
            }
            shared.follow(true);
            Ok(position)
        })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            let shared = &self.shared;
            let before = shared.marks.mark();
            let page = shared.catalog.changes(after, limit).await;
            let page = page.inspect_err(|_| shared.follow(false))?;
            shared.tell(before.as_ref(), after, &page).await;
            shared.follow(true);
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.shared.catalog.changed()
    }
}

#[deny(clippy::missing_trait_methods)]
impl Catalog for Layered {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(async move {
            let id = self.shared.catalog.id().await?;
            if self.shared.marks.is(id) {
                self.shared.lose();
            }
            Ok(id)
        })
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.shared.find(name))
    }

    fn find_past_level<'a>(
        &'a self,
        name: &'a HostName,
    ) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.shared.find_behind(name))
    }

    /// Who writes reads what was written: the level is not asked again before
    /// it is as far.
    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let before = self.shared.marks.mark();
            let number = self.shared.catalog.write(batch).await?;
            if self.shared.marks.wrote(before.as_ref(), number) {
                self.shared.lose();
            }
            Ok(number)
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.shared.catalog.hosts(patterns)
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.shared.catalog.list_hosts(after, limit)
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        self.shared.catalog.hosts_of(id, after, limit)
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        self.shared.catalog.credentials(ids)
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential<SealedBytes>>>> {
        self.shared.catalog.list_credentials(after, limit)
    }

    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        self.shared.catalog.document(kind, key)
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        self.shared.catalog.list_documents(kind, after, limit)
    }

    fn kind_after<'a>(&'a self, after: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        self.shared.catalog.kind_after(after)
    }

    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.shared.catalog.lease(name, holder, ttl)
    }

    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>> {
        self.shared.catalog.release(name, holder)
    }
}
