//! The catalog for many servers: PostgreSQL, from version 13 on.
//!
//! All that is stored lies in the schema `sekisho` of the database. Private
//! keys are taken and given sealed only. Behind PgBouncer in transaction mode
//! (`pgbouncer=1`) nothing is prepared and nothing listened for.

mod claims;
mod connection;
mod database;
mod fault;
mod find;
mod foreign;
mod lineages;
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

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_postgres::Row;

use self::connection::Connection;
use self::fault::Step;
use self::listen::Watch;
use self::params::{Params, column};
use self::pool::Pool;
use self::rows::signed;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::metrics::Counter;
use sekisho_certs::record::HostRecord;
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, Document, DocumentId,
    DocumentKind, LogPosition, Result,
};

pub use self::database::{Columns, Database, Value};
pub use self::url::Url;
pub use crate::options::Mode;

/// Catalog in a PostgreSQL database. The runtime that it was made with drives
/// its connections and calls; those of lookups also the runtimes that serve
/// ([`crate::worker`]).
#[derive(Debug)]
pub struct Postgres {
    pool: Arc<Pool>,
    /// Begun by the first who follows the log: commands do not.
    watch: OnceLock<Watch>,
}

impl Postgres {
    /// Prepares for a database that may be out of reach: the first call
    /// connects. That runtime must run for as long as calls are made.
    ///
    /// # Errors
    /// If the file of trusted authorities can't be used.
    pub fn new(url: &Url, options: &Options, runtime: &Handle) -> Result<Self> {
        let pool = Arc::new(Pool::new(url, options, runtime)?);
        let watch = OnceLock::new();
        Ok(Self { pool, watch })
    }

    /// Returns whether the database holds a store, of any version.
    ///
    /// # Errors
    /// If that can't be told.
    pub async fn is_there(url: &Url, runtime: &Handle) -> Result<bool> {
        let pool = Pool::new(url, &Options::default(), runtime)?;
        Ok(pool.header().await?.is_some())
    }

    fn options(&self) -> &Options {
        &self.pool.dialer.options
    }

    fn read<T, F>(
        &self,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> BoxFuture<'_, Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        Box::pin(self.pool.call(self.options().read, work))
    }

    fn read_log<T, F>(
        &self,
        work: impl FnOnce(Arc<Connection>) -> F + Send + 'static,
    ) -> BoxFuture<'_, Result<T>>
    where
        T: Send + 'static,
        F: Future<Output = Step<T>> + Send + 'static,
    {
        Box::pin(self.pool.read_log(self.options().read, work))
    }

    /// Seconds of a test's clock; none for the database's own.
    fn now(&self) -> Option<i64> {
        self.options().clock.as_ref().map(Clock::now)
    }

    /// Milliseconds of a test's clock; none for the database's own.
    fn now_ms(&self) -> Option<i64> {
        self.options().clock.as_ref().map(Clock::now_ms)
    }
}

/// How a store is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Handling of missing tables. Older ones are brought to this version
    /// either way.
    pub mode: Mode,
    /// Clock for the expiry of claims and documents in tests, instead of the
    /// database's, which all servers share.
    pub clock: Option<Clock>,
    /// How many changes the log keeps; readers further behind see a gap.
    pub keep: u64,
    /// How long a new connection may take until it can be used.
    pub connect: Duration,
    /// How long a read may take, its wait for a connection included.
    pub read: Duration,
    /// How long a write may take, which waits for other writers.
    pub write: Duration,
    /// Counts connections that were given up since a lookup hung on them.
    pub retired: Counter,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            mode: Mode::Existing,
            clock: None,
            keep: 100_000,
            connect: Duration::from_secs(5),
            read: Duration::from_secs(10),
            write: Duration::from_secs(30),
            retired: Counter::default(),
        }
    }
}

impl ChangeLog for Postgres {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        self.read_log(async move |on| log::position(&on).await)
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        self.read_log(async move |on| log::changes(&on, after, limit).await)
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        let watch = self.watch.get_or_init(|| Watch::start(&self.pool));
        Box::pin(watch.changed())
    }
}

impl Catalog for Postgres {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(self.pool.catalog())
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(self.pool.find(self.options().read, name.clone()))
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        let (now_ms, keep) = (self.now_ms(), self.options().keep);
        let notify = self.watch.get().map(Watch::notify);
        let write = async move |on: Arc<Connection>| {
            let written = write::write(&on, batch, now_ms, keep).await?;
            if let Some(notify) = notify.filter(|_| written.is_announced) {
                notify.send_replace(());
            }
            Ok(written.number)
        };
        Box::pin(self.pool.call(self.options().write, write))
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        let patterns = column(patterns, |pattern| pattern.as_str().to_owned());
        self.read(async move |on| on.list(read::HOSTS, &[&patterns], rows::host).await)
    }

    fn list_hosts<'a>(
        &'a self,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        let (after, limit) = (
            after.map_or("", HostPattern::as_str).to_owned(),
            rows::limit(limit),
        );
        self.read(async move |on| {
            on.list(read::LIST_HOSTS, &[&after, &limit], rows::host)
                .await
        })
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        let (id, limit) = (signed(id.as_u64()), rows::limit(limit));
        let after = after.map_or("", HostPattern::as_str).to_owned();
        self.read(async move |on| {
            let params: Params<'_> = &[&id, &after, &limit];
            on.list(read::HOSTS_OF, params, |row| rows::pattern(row, 0))
                .await
        })
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        let ids = column(ids, |id| signed(id.as_u64()));
        self.read(async move |on| on.list(read::CREDENTIALS, &[&ids], rows::credential).await)
    }

    fn list_credentials(
        &self,
        after: Option<CredentialId>,
        limit: usize,
    ) -> BoxFuture<'_, Result<Vec<StoredCredential<SealedBytes>>>> {
        let after = after.map_or(-1, |id| signed(id.as_u64()));
        let limit = rows::limit(limit);
        self.read(async move |on| {
            let params: Params<'_> = &[&after, &limit];
            on.list(read::LIST_CREDENTIALS, params, rows::credential)
                .await
        })
    }

    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        let (id, now) = (id.clone(), self.now());
        self.read(async move |on| {
            let params: Params<'_> = &[&id.kind.as_str(), &&*id.key, &now];
            let found = on.list(read::DOCUMENT, params, rows::document).await?;
            Ok(found.into_iter().next())
        })
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        let (kind, now, limit) = (kind.as_str().to_owned(), self.now(), rows::limit(limit));
        let (key, is_first) = (after.unwrap_or("").to_owned(), after.is_none());
        self.read(async move |on| {
            let params: Params<'_> = &[&kind, &key, &is_first, &now, &limit];
            on.list(read::LIST_DOCUMENTS, params, rows::document).await
        })
    }

    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        let after = after.to_owned();
        self.read(async move |on| {
            let kind = |row: &Row| rows::get::<String>(row, 0);
            let found = on.list(read::NEXT_KIND, &[&after], kind).await?;
            Ok(found.into_iter().next().map(DocumentKind::from))
        })
    }

    fn claim<'a>(
        &'a self,
        which: ToClaim,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Vec<(LineageName, Claim)>>> {
        let (holder, now_ms) = (holder.to_owned(), self.now_ms());
        let claim =
            async move |on: Arc<Connection>| claims::claim(&on, &which, &holder, ttl, now_ms).await;
        Box::pin(self.pool.call(self.options().write, claim))
    }

    fn lineages<'a>(
        &'a self,
        names: &'a [LineageName],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let (names, now_ms) = (column(names, LineageName::to_string), self.now_ms());
        self.read(async move |on| {
            let params: Params<'_> = &[&now_ms, &names];
            on.list(lineages::LINEAGES, params, lineages::lineage).await
        })
    }

    fn lineages_of<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let (ids, now_ms) = (column(ids, |id| signed(id.as_u64())), self.now_ms());
        self.read(async move |on| {
            let params: Params<'_> = &[&now_ms, &ids];
            on.list(lineages::LINEAGES_OF, params, lineages::lineage)
                .await
        })
    }

    fn list_lineages<'a>(
        &'a self,
        which: Listed,
        after: Option<&'a LineageName>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let (now_ms, limit) = (self.now_ms(), rows::limit(limit));
        let after = after.map_or("", LineageName::as_str).to_owned();
        let text = match which {
            Listed::All => lineages::LIST_LINEAGES,
            Listed::Failing => lineages::LIST_FAILING,
        };
        self.read(async move |on| {
            let params: Params<'_> = &[&now_ms, &after, &limit];
            on.list(text, params, lineages::lineage).await
        })
    }

    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>> {
        let count = async move |on: Arc<Connection>| {
            let count = |row: &Row| rows::number(row, 0);
            let counted = on.list(read::COUNT_LINEAGES, &[], count).await?;
            Ok(counted.into_iter().sum())
        };
        Box::pin(self.pool.call(read::COUNT_TIMEOUT, count))
    }
}
