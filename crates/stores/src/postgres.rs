//! The catalog for many servers: PostgreSQL, from version 13 on.
//!
//! All that is stored lies in the schema `sekisho` of the database. Private
//! keys are taken and given sealed only. Behind PgBouncer in transaction mode
//! (`pgbouncer=1`) nothing is prepared and nothing listened for.

mod claims;
mod connection;
mod fault;
mod find;
mod foreign;
mod lineages;
mod list;
mod listen;
mod log;
mod params;
mod pool;
mod read;
mod rows;
mod schema;
mod script_database;
mod tls;
mod url;
mod write;

#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio_postgres::Row;

use self::connection::Connection;
use self::fault::Step;
use self::listen::Watch;
use self::params::{Owned, Param, column};
use self::pool::Pool;
use crate::catalog_row::{self, listed_credential, listed_host, signed, tenant};
use crate::lineage_row;
use crate::lists;
use crate::upgrade::require_index;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::metrics::Counter;
use sekisho_certs::record::{HostRecord, Tenant};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, CredentialFilter, CredentialPage,
    Document, DocumentId, DocumentKind, HostFilter, HostPage, LogPosition, Result,
};

pub use self::script_database::ScriptDatabase;
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

    /// Reads all rows of one statement.
    fn list<T: Send + 'static>(
        &self,
        text: impl Into<Cow<'static, str>>,
        params: Owned,
        row: fn(&Row) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        let text = text.into();
        let list = async move |on: Arc<Connection>| {
            let params = column(&params, |one| -> &dyn Param { &**one });
            on.list(&text, &params, row).await
        };
        Box::pin(self.pool.call(self.options().read, list))
    }

    /// Reads the one row of a statement; none if it has none.
    fn one<T: Send + 'static>(
        &self,
        text: &'static str,
        params: Owned,
        row: fn(&Row) -> Step<T>,
    ) -> BoxFuture<'_, Result<Option<T>>> {
        let listed = self.list(text, params, row);
        Box::pin(async move { Ok(listed.await?.pop()) })
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
            keep: 1_000_000,
            connect: Duration::from_secs(5),
            read: Duration::from_secs(10),
            write: Duration::from_secs(30),
            retired: Counter::default(),
        }
    }
}

impl ChangeLog for Postgres {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        let read = async move |on: Arc<Connection>| log::position(&on).await;
        Box::pin(self.pool.read_log(read))
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        let read = async move |on: Arc<Connection>| log::changes(&on, after, limit).await;
        Box::pin(self.pool.read_log(read))
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
        Box::pin(self.pool.find(name.clone()))
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        let (now_ms, keep) = (self.now_ms(), self.options().keep);
        // Spares the store's own writes the way over the server.
        let notify = self.watch.get().map(|watch| watch.changed.clone());
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
        let patterns = Box::new(column(patterns, HostPattern::to_string));
        self.list(read::HOSTS, vec![patterns], listed_host)
    }

    fn list_hosts<'a>(
        &'a self,
        filter: &'a HostFilter,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<HostPage>> {
        Box::pin(async move {
            let list = lists::hosts(filter, after, limit);
            let read = self.page(list, listed_host).await?;
            Ok(HostPage::of(read, filter, limit))
        })
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a Tenant>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Tenant>>> {
        Box::pin(self.page(lists::tenants(after, limit), tenant))
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        let (id, limit) = (signed(id.as_u64()), catalog_row::limit(limit));
        let params: Owned = vec![
            Box::new(id),
            Box::new(catalog_row::list_start(after)),
            Box::new(limit),
        ];
        self.list(read::HOSTS_OF, params, |row| catalog_row::pattern(row, 0))
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        let ids = Box::new(column(ids, |id| signed(id.as_u64())));
        self.list(read::CREDENTIALS, vec![ids], |row| {
            listed_credential(row, 0)
        })
    }

    fn list_credentials<'a>(
        &'a self,
        filter: &'a CredentialFilter,
        after: Option<(i64, CredentialId)>,
        limit: usize,
    ) -> BoxFuture<'a, Result<CredentialPage>> {
        Box::pin(async move {
            let list = lists::credentials(filter, after, limit);
            let read = self.page(list, |row| listed_credential(row, 0)).await?;
            Ok(CredentialPage::of(read, filter, limit))
        })
    }

    fn document<'a>(
        &'a self,
        id: &'a DocumentId,
    ) -> BoxFuture<'a, Result<Option<Document<SealedBytes>>>> {
        let (kind, key) = (id.kind.as_str().to_owned(), id.key.clone().into_owned());
        let params: Owned = vec![Box::new(kind), Box::new(key), Box::new(self.now())];
        self.one(read::DOCUMENT, params, catalog_row::document)
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        let params: Owned = vec![
            Box::new(kind.as_str().to_owned()),
            Box::new(after.unwrap_or_default().to_owned()),
            Box::new(after.is_none()),
            Box::new(self.now()),
            Box::new(catalog_row::limit(limit)),
        ];
        self.list(read::LIST_DOCUMENTS, params, catalog_row::document)
    }

    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        let after = Box::new(after.to_owned());
        self.one(read::NEXT_KIND, vec![after], |row| {
            rows::get::<String>(row, 0).map(DocumentKind::from)
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
        let names = Box::new(column(names, LineageName::to_string));
        let params: Owned = vec![Box::new(self.now_ms()), names];
        self.list(lineages::LINEAGES, params, lineage_row::read)
    }

    fn lineages_of<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let ids = Box::new(column(ids, |id| signed(id.as_u64())));
        let params: Owned = vec![Box::new(self.now_ms()), ids];
        self.list(lineages::LINEAGES_OF, params, lineage_row::read)
    }

    fn list_lineages<'a>(
        &'a self,
        which: Listed,
        after: Option<&'a LineageName>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let after = after.map_or(String::new(), LineageName::to_string);
        let limit = catalog_row::limit(limit);
        let params: Owned = vec![Box::new(self.now_ms()), Box::new(after), Box::new(limit)];
        let (index, text) = match which {
            Listed::All => ("", lineages::LIST_LINEAGES),
            Listed::Failing => ("", lineages::LIST_FAILING),
            Listed::Without => ("lineages_without_certificate", lineages::LIST_WITHOUT),
        };
        Box::pin(async move {
            require_index(self, index).await?;
            self.list(text, params, lineage_row::read).await
        })
    }

    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>> {
        let count = async move |on: Arc<Connection>| {
            let count = |row: &Row| catalog_row::number(row, 0);
            let counted = on.list(read::COUNT_LINEAGES, &[], count).await?;
            Ok(counted.into_iter().sum())
        };
        Box::pin(self.pool.call(read::COUNT_TIMEOUT, count))
    }

    fn count_due(&self, most: usize) -> BoxFuture<'_, Result<u64>> {
        let now = self.now_ms().map(|now| now.div_euclid(1000));
        let params: Owned = vec![Box::new(now), Box::new(catalog_row::limit(most))];
        let counted = self.list(read::COUNT_DUE, params, |row| catalog_row::number(row, 0));
        Box::pin(async move { Ok(counted.await?.into_iter().sum()) })
    }
}
