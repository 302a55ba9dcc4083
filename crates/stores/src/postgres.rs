//! The catalog for many servers: PostgreSQL, from version 13 on.
//!
//! All that is stored lies in the schema `sekisho` of the database. Private
//! keys are taken and given sealed only. Behind PgBouncer in transaction mode
//! (`pgbouncer=1`) nothing is prepared and nothing listened for.

mod connection;
mod fault;
mod find;
mod lease;
mod listen;
mod log;
mod params;
mod pool;
mod read;
mod rows;
mod schema;
mod tls;
mod url;
mod write;

#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use self::connection::Connection;
use self::listen::Watch;
use self::pool::Pool;
use self::schema::Header;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, Document, DocumentId,
    DocumentKind, Lease, LogPosition, Result,
};

use self::fault::Step;

pub use self::url::Url;
pub use crate::open::Mode;

/// A catalog in a database. Its connections and calls are driven by the
/// runtime that it was made with; look-ups also by those that serve
/// ([`super::near`]).
#[derive(Debug)]
pub struct Postgres {
    pool: Arc<Pool>,
    watch: Watch,
}

impl Postgres {
    /// Makes ready for a database that may be out of reach: the first call
    /// connects. That runtime must run for as long as calls are made.
    ///
    /// # Errors
    /// If the file of trusted authorities can't be used.
    pub fn new(url: &Url, mode: Mode, options: &Options, runtime: &Handle) -> Result<Self> {
        let pool = Arc::new(Pool::new(url, mode, options, runtime)?);
        let watch = Watch::start(&pool);
        Ok(Self { pool, watch })
    }

    /// Whether the database holds a store, of whatever version.
    ///
    /// # Errors
    /// If that can't be told.
    pub async fn is_there(url: &Url, runtime: &Handle) -> Result<bool> {
        let pool = Pool::new(url, Mode::Existing, &Options::default(), runtime)?;
        Ok(Arc::new(pool).header().await? != Header::Nothing)
    }

    fn read<T, F>(
        &self,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> BoxFuture<'_, Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        Box::pin(self.pool.call(self.pool.dialer.options.read, work))
    }

    fn change<T, F>(
        &self,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> BoxFuture<'_, Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        Box::pin(self.pool.call(self.pool.dialer.options.write, work))
    }

    /// What a test's clock says; none for the database's own.
    fn now_ms(&self) -> Option<i64> {
        self.pool.dialer.options.clock.as_ref().map(Clock::now_ms)
    }

    fn now(&self) -> Option<i64> {
        self.pool.dialer.options.clock.as_ref().map(Clock::now)
    }
}

/// How a store is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tells whether leases and documents are over, instead of the database's
    /// clock, which all servers share: for tests.
    pub clock: Option<Clock>,
    /// How many changes the log keeps; who is further behind sees a gap.
    pub keep: u64,
    /// How long a new connection may take until it can be used.
    pub connect: Duration,
    /// How long a read may take, its wait for a connection included.
    pub read: Duration,
    /// How long a write may take, which waits for other writers.
    pub write: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: None,
            keep: 100_000,
            connect: Duration::from_secs(5),
            read: Duration::from_secs(10),
            write: Duration::from_secs(30),
        }
    }
}

impl ChangeLog for Postgres {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        self.read(async move |on| log::position(&on).await)
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        self.read(async move |on| log::changes(&on, after, limit).await)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.watch.changed())
    }
}

impl Catalog for Postgres {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(self.pool.catalog())
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.pool.find(self.pool.dialer.options.read, name.clone()))
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        let (now, keep) = (self.now(), self.pool.dialer.options.keep);
        let notify = self.watch.notify();
        self.change(async move |on| {
            let number = write::write(&on, batch, now, keep).await?;
            notify.send_replace(());
            Ok(number)
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        let patterns = patterns.to_vec();
        self.read(async move |on| read::hosts(&on, &patterns).await)
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        let after = after.cloned();
        self.read(async move |on| read::list_hosts(&on, after.as_ref(), limit).await)
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        let after = after.cloned();
        self.read(async move |on| read::hosts_of(&on, id, after.as_ref(), limit).await)
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        let ids = ids.to_vec();
        self.read(async move |on| read::credentials(&on, &ids).await)
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential<SealedBytes>>>> {
        self.read(async move |on| read::list_credentials(&on, after, limit).await)
    }

    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        let (id, now) = (id.clone(), self.now());
        self.read(async move |on| read::document(&on, &id, now).await)
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        let (kind, after) = (kind.clone(), after.map(str::to_owned));
        let now = self.now();
        self.read(async move |on| {
            read::list_documents(&on, &kind, after.as_deref(), limit, now).await
        })
    }

    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        let after = after.to_owned();
        self.read(async move |on| read::next_document_kind(&on, &after).await)
    }

    fn lease<'a>(
        &'a self,
        name: &'a str,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Option<Lease>>> {
        let (name, holder, now_ms) = (name.to_owned(), holder.to_owned(), self.now_ms());
        self.change(async move |on| lease::lease(&on, &name, &holder, ttl, now_ms).await)
    }

    fn release<'a>(&'a self, name: &'a str, holder: &'a str) -> BoxFuture<'a, Result<()>> {
        let (name, holder) = (name.to_owned(), holder.to_owned());
        self.change(async move |on| lease::release(&on, &name, &holder).await)
    }
}
