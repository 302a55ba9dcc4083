//! The calls: what passes through, and what is sealed or opened on its way.

use std::time::Duration;

use super::Sealed;
use super::secrets::Unopened;
use crate::credential::{CredentialId, StoredCredential};
use crate::host::{HostName, HostPattern};
use crate::record::HostRecord;
use crate::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangePage, Document, Lease, LogPosition, Result, Store,
    StoreError, Write,
};

#[deny(clippy::missing_trait_methods)]
impl Store for Sealed {
    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let answer = self.inner.find(name).await?;
            match self.open_answer(answer).await {
                Err(Unopened::AtLevel(why)) => {
                    tracing::debug!(host = %name, %why, "the store itself is asked");
                    let answer = self.inner.find_past_level(name).await?;
                    Ok(self.open_answer(answer).await?)
                }
                opened => Ok(opened?),
            }
        })
    }

    fn find_past_level<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer>> {
        Box::pin(async move {
            let answer = self.inner.find_past_level(name).await?;
            Ok(self.open_answer(answer).await?)
        })
    }
}

#[deny(clippy::missing_trait_methods)]
impl Catalog for Sealed {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        self.inner.id()
    }

    fn position(&self) -> BoxFuture<'_, Result<LogPosition>> {
        Box::pin(async move {
            let position = self.inner.position().await?;
            self.meet().await?;
            Ok(position)
        })
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        Box::pin(async move {
            let page = self.inner.changes(after, limit).await?;
            self.notice(&page).await;
            Ok(page)
        })
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        self.inner.changed()
    }

    fn write(&self, batch: Vec<Write>) -> BoxFuture<'_, Result<u64>> {
        Box::pin(async move {
            // What is sealed for one catalog must not land in another.
            self.meet().await?;
            let is_secret = |write: &Write| {
                use Write::{PutCredential, PutDocument, Reseal};
                matches!(write, PutCredential(..) | PutDocument(..) | Reseal(_))
            };
            if !batch.iter().any(is_secret) {
                self.opened().await?;
                return self.inner.write(batch).await;
            }
            let mut conflict = None;
            for _ in 0..ATTEMPTS {
                let sealer = self.sealer().await?;
                let required = std::iter::once(Ok(sealer.check.require()));
                let sealed = batch.iter().map(|write| sealer.write(write.clone()));
                let sealed = required.chain(sealed).collect::<Result<_>>()?;
                match self.inner.write(sealed).await {
                    // By the caller's own expectations, or because another key
                    // seals by now.
                    Err(StoreError::Conflict(what))
                        if self.learn().await? != Some(sealer.check) =>
                    {
                        conflict = Some(what);
                    }
                    other => return other,
                }
            }
            Err(StoreError::Conflict(conflict.unwrap_or_default()))
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
            let mut stored = self.inner.credentials(ids).await?;
            self.open_credentials(&mut stored).await?;
            Ok(stored)
        })
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential>>> {
        Box::pin(async move {
            let mut stored = self.inner.list_credentials(after, limit).await?;
            self.open_credentials(&mut stored).await?;
            Ok(stored)
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
            let mut document = self.inner.document(kind, key).await?;
            let catalog = self.opened().await?;
            if let Some(document) = &mut document {
                self.open_document(catalog, document).await?;
            }
            Ok(document)
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a str,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document>>> {
        Box::pin(async move {
            let mut stored = self.inner.list_documents(kind, after, limit).await?;
            let catalog = self.opened().await?;
            for document in &mut stored {
                self.open_document(catalog, document).await?;
            }
            Ok(stored)
        })
    }

    fn kind_after<'a>(&'a self, after: &'a str) -> BoxFuture<'a, Result<Option<String>>> {
        self.inner.kind_after(after)
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

/// More means that others change the key without pause.
const ATTEMPTS: usize = 3;
