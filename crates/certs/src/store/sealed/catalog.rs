//! The calls: what passes through, and what is sealed or opened on its way.

use std::time::Duration;

use super::Sealed;
use crate::credential::{CredentialId, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::HostRecord;
use crate::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangePage, Document, Lease, Position, Result, Store,
    Write,
};

impl Store for Sealed {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let Answer::Found(mut found) = self.inner.find(name).await? else {
                return Ok(Answer::Absent);
            };
            let catalog = self.opened().await?;
            let credentials = std::mem::take(&mut found.credentials).into_iter();
            let credentials = credentials.map(|one| self.open_credential(catalog, one));
            found.credentials = credentials.collect::<Result<_>>()?;
            Ok(Answer::Found(found))
        })
    }
}

impl Catalog for Sealed {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        self.inner.id()
    }

    fn position(&self) -> BoxFuture<'_, Result<Position>> {
        self.inner.position()
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        self.inner.changes(after, limit)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            let catalog = self.opened().await?;
            let sealed = batch.into_iter();
            let sealed = sealed.map(|write| self.seal_write(catalog, write));
            self.inner.write(sealed.collect::<Result<_>>()?).await
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.inner.hosts(patterns)
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        self.inner.list_hosts(after, limit)
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        self.inner.hosts_of(id, after, limit)
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential>>> {
        Box::pin(async move {
            let stored = self.inner.credentials(ids).await?.into_iter();
            let catalog = self.opened().await?;
            stored
                .map(|one| self.open_credential(catalog, one))
                .collect()
        })
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential>>> {
        Box::pin(async move {
            let stored = self.inner.list_credentials(after, limit).await?;
            let catalog = self.opened().await?;
            let opened = stored.into_iter();
            opened
                .map(|one| self.open_credential(catalog, one))
                .collect()
        })
    }

    fn due(&self, until: i64, limit: usize) -> BoxFuture<'_, Result<Vec<CredentialId>>> {
        self.inner.due(until, limit)
    }

    fn document<'a>(
        &'a self,
        kind: &'a str,
        key: &'a str,
    ) -> BoxFuture<'a, Result<Option<Document>>> {
        Box::pin(async move {
            let document = self.inner.document(kind, key).await?;
            let catalog = self.opened().await?;
            document
                .map(|one| self.open_document(catalog, one))
                .transpose()
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>>> {
        Box::pin(async move {
            let stored = self.inner.list_documents(kind, after, limit).await?;
            let catalog = self.opened().await?;
            let opened = stored.into_iter();
            opened.map(|one| self.open_document(catalog, one)).collect()
        })
    }

    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>> {
        self.inner.lease(name, holder, ttl)
    }

    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>> {
        self.inner.release(name, holder)
    }
}
