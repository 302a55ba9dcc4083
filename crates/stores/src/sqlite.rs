//! The embedded catalog: one SQLite file in WAL mode (<https://sqlite.org/wal.html>).
//!
//! Several processes may have it open; the second writer waits for the first.
//! Replace the file only by renaming a complete copy over it: a running server
//! notices and reads the new one. `sekisho store backup` makes a copy whose log
//! is another one. `VACUUM INTO` and `.backup` keep the log's identity, so that
//! a server that starts on such a copy can't always tell that numbers it finds
//! elsewhere, in a level before the store, say, were of another past.

mod backup;
pub(crate) mod documents;
mod events;
mod fault;
mod file;
mod find;
mod inline;
mod lineages;
mod list;
mod log;
pub(super) mod nowait;
mod read;
pub(crate) mod rows;
mod schema;
mod slot;
pub(crate) mod statements;
mod watch;
mod write;

#[cfg(test)]
mod tests;

use std::future::ready;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{Params, Row};

use self::file::StoreFile;
use self::inline::InlineReaders;
use self::read::{CREDENTIAL, DOCUMENT, DOCUMENTS, HOST, HOSTS_OF, NEXT_KIND, StoreConnection};
use self::rows::Step;
use self::slot::{Role, Slot};
use self::watch::Watch;
use crate::catalog_row::{self, listed_credential, listed_host, tenant};
use crate::fault::unavailable;
use crate::lineage_row;
use crate::lists;
pub use crate::options::Mode;
use crate::threads::Threads;
use crate::upgrade::require_index;
use sekisho_certs::clock::Clock;
use sekisho_certs::credential::{CredentialId, SealedBytes, StoredCredential};
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::lineage::{Claim, Lineage, LineageName, Listed, ToClaim};
use sekisho_certs::record::{HostRecord, Tenant};
use sekisho_certs::seal::Batch;
use sekisho_certs::store::{
    Answer, BoxFuture, Catalog, CatalogId, ChangeLog, ChangePage, CredentialFilter, CredentialPage,
    Document, DocumentId, DocumentKind, HostFilter, HostPage, LogPosition, Result,
};

/// A catalog in one file. Reads and writes run on a few threads of its own;
/// only what the system has in memory is read on the caller's.
#[derive(Debug)]
pub struct Sqlite {
    file: Arc<StoreFile>,
    readers: Threads<Arc<Slot>>,
    inline: Arc<InlineReaders>,
    writer: Threads<Arc<Slot>>,
    watch: Watch,
}

impl Sqlite {
    /// Opens a store with the default options. It blocks for as long as the
    /// first page takes to read, however many hosts there are. A new file is readable
    /// by its owner only.
    ///
    /// # Errors
    /// Names the file, what is wrong with it and what to do.
    pub fn open(path: &Path, mode: Mode) -> Result<Self> {
        Self::open_with(path, mode, &Options::default())
    }

    /// Opens a store with these options.
    ///
    /// # Errors
    /// As [`Sqlite::open`].
    pub fn open_with(path: &Path, mode: Mode, options: &Options) -> Result<Self> {
        let (file, connection) = StoreFile::open(path, mode, options)?;
        let mut first = Some(connection);
        let readers = [(); READERS].map(|()| file.slot(first.take(), Role::Reader));
        let writer = file.slot(None, Role::Writer);
        let inline = Arc::new(InlineReaders::new(&file));
        let threads = |error: io::Error| {
            let path = path.display();
            unavailable(format!("can't start the threads for {path}: {error}"))
        };
        Ok(Self {
            readers: Threads::start("sqlite-read", readers, MAX_WAITING).map_err(threads)?,
            writer: Threads::start("sqlite-write", [writer], MAX_WAITING).map_err(threads)?,
            watch: Watch::start(Arc::clone(&file), Arc::clone(&inline)).map_err(threads)?,
            inline,
            file,
        })
    }

    /// Writes a whole copy of the store into a new file, or an empty one, of
    /// one state and while others write. The copy is durable. Its log has an
    /// identity of its own: put in the place of a store, it is no continuation
    /// of what that one's readers have seen.
    pub fn backup(&self, to: &Path) -> BoxFuture<'_, Result<()>> {
        let to = to.to_owned();
        self.read(move |connection| connection.backup(&to))
    }

    fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StoreConnection) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        Box::pin(self.readers.run(move |slot| slot.with(work)))
    }

    /// Reads all rows of one statement.
    fn list<T: Send + 'static>(
        &self,
        text: &'static str,
        values: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        self.read(move |connection| connection.list(text, values, row))
    }

    /// Reads the rows of one statement for each of these values.
    fn list_each<T: Send + 'static>(
        &self,
        text: &'static str,
        values: Vec<impl Params + Send + 'static>,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        self.read(move |connection| connection.list_each(text, values, row))
    }

    /// Reads the one row of a statement; none if it has none.
    fn one<T: Send + 'static>(
        &self,
        text: &'static str,
        values: impl Params + Send + 'static,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> BoxFuture<'_, Result<Option<T>>> {
        self.read(move |connection| Ok(connection.list(text, values, row)?.pop()))
    }

    fn change<T: Send + 'static>(
        &self,
        work: impl FnOnce(&mut StoreConnection) -> Result<T> + Send + 'static,
    ) -> BoxFuture<'_, Result<T>> {
        Box::pin(self.writer.run(move |slot| slot.with_durably(work)))
    }
}

impl Drop for Sqlite {
    fn drop(&mut self) {
        self.file.close();
    }
}

/// How a store file is used.
#[derive(Clone, Debug)]
pub struct Options {
    /// Tells whether claims and documents are over.
    pub clock: Clock,
    /// How many changes the log keeps; who is further behind sees a gap.
    pub keep: u64,
    /// How long a writer waits for another process's transaction.
    pub busy: Duration,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            clock: Clock::System,
            keep: 1_000_000,
            // As long as a write in PostgreSQL may take: on a busy disk, one commit
            // of another process takes seconds.
            busy: Duration::from_secs(30),
        }
    }
}

impl ChangeLog for Sqlite {
    fn head(&self) -> BoxFuture<'_, Result<LogPosition>> {
        self.read(StoreConnection::position)
    }

    fn changes(&self, after: u64, limit: usize) -> BoxFuture<'_, Result<ChangePage>> {
        self.read(move |connection| connection.changes(after, limit))
    }

    fn changed(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.watch.changed())
    }
}

impl Catalog for Sqlite {
    fn id(&self) -> BoxFuture<'_, Result<CatalogId>> {
        Box::pin(ready(Ok(self.file.catalog())))
    }

    fn find<'a>(&'a self, name: &'a HostName) -> BoxFuture<'a, Result<Answer<SealedBytes>>> {
        Box::pin(async move {
            if let Some(answer) = self.inline.find(name) {
                return Ok(answer);
            }
            let name = name.clone();
            self.read(move |connection| connection.find(&name)).await
        })
    }

    fn write(&self, batch: Batch) -> BoxFuture<'_, Result<u64>> {
        let Options { clock, keep, .. } = self.file.options.clone();
        // Spares the store's own writes the wait for the next look.
        let notify = self.watch.changed.clone();
        self.change(move |connection| {
            let number = connection.write(batch, clock.now_ms(), keep)?;
            notify.send_replace(());
            Ok(number)
        })
    }

    fn hosts<'a>(&'a self, patterns: &'a [HostPattern]) -> BoxFuture<'a, Result<Vec<HostRecord>>> {
        let patterns: Vec<_> = patterns.iter().map(|one| [one.to_string()]).collect();
        self.list_each(HOST, patterns, |row| listed_host(row))
    }

    fn list_hosts<'a>(
        &'a self,
        filter: &'a HostFilter,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<HostPage>> {
        Box::pin(async move {
            let list = lists::hosts(filter, after, limit);
            let read = self.page(list, |row| listed_host(row)).await?;
            Ok(HostPage::of(read, filter, limit))
        })
    }

    fn tenants<'a>(
        &'a self,
        after: Option<&'a Tenant>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Tenant>>> {
        Box::pin(self.page(lists::tenants(after, limit), |row| tenant(row)))
    }

    fn hosts_of<'a>(
        &'a self,
        id: CredentialId,
        after: Option<&'a HostPattern>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<HostPattern>>> {
        let values = (
            id.as_u64(),
            catalog_row::list_start(after),
            catalog_row::limit(limit),
        );
        self.list(HOSTS_OF, values, |row| catalog_row::pattern(row, 0))
    }

    fn credentials<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<StoredCredential<SealedBytes>>>> {
        let ids: Vec<_> = ids.iter().map(|id| [id.as_u64()]).collect();
        self.list_each(CREDENTIAL, ids, |row| listed_credential(row, 0))
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
        let values = (kind, key, self.file.options.clock.now());
        self.one(DOCUMENT, values, |row| catalog_row::document(row))
    }

    fn list_documents<'a>(
        &'a self,
        kind: &'a DocumentKind,
        after: Option<&'a str>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Document<SealedBytes>>>> {
        let (kind, after) = (kind.as_str().to_owned(), after.map(str::to_owned));
        let (now, limit) = (self.file.options.clock.now(), catalog_row::limit(limit));
        let values = (kind, after, now, limit);
        self.list(DOCUMENTS, values, |row| catalog_row::document(row))
    }

    fn next_document_kind<'a>(
        &'a self,
        after: &'a str,
    ) -> BoxFuture<'a, Result<Option<DocumentKind>>> {
        self.one(NEXT_KIND, [after.to_owned()], |row| {
            Ok(DocumentKind::from(row.get::<_, String>(0)?))
        })
    }

    fn claim<'a>(
        &'a self,
        which: ToClaim,
        holder: &'a str,
        ttl: Duration,
    ) -> BoxFuture<'a, Result<Vec<(LineageName, Claim)>>> {
        let holder = holder.to_owned();
        let clock = self.file.options.clock.clone();
        self.change(move |connection| connection.claim(&which, &holder, ttl, clock.now_ms()))
    }

    fn lineages<'a>(
        &'a self,
        names: &'a [LineageName],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let now_ms = self.file.options.clock.now_ms();
        let names: Vec<_> = names.iter().map(|one| (now_ms, one.to_string())).collect();
        self.list_each(lineages::LINEAGE, names, |row| lineage_row::read(row))
    }

    fn lineages_of<'a>(
        &'a self,
        ids: &'a [CredentialId],
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let now_ms = self.file.options.clock.now_ms();
        let ids: Vec<_> = ids.iter().map(|id| (now_ms, id.as_u64())).collect();
        self.list_each(lineages::LINEAGES_OF, ids, |row| lineage_row::read(row))
    }

    fn list_lineages<'a>(
        &'a self,
        which: Listed,
        after: Option<&'a LineageName>,
        limit: usize,
    ) -> BoxFuture<'a, Result<Vec<Lineage<SealedBytes>>>> {
        let after = after.map_or(String::new(), LineageName::to_string);
        let now_ms = self.file.options.clock.now_ms();
        let values = (now_ms, after, catalog_row::limit(limit));
        let (index, text) = match which {
            Listed::All => ("", lineages::LINEAGES),
            Listed::Failing => ("", lineages::FAILING_LINEAGES),
            Listed::Without => ("lineages_without_certificate", lineages::LINEAGES_WITHOUT),
        };
        Box::pin(async move {
            require_index(self, index).await?;
            self.list(text, values, |row| lineage_row::read(row)).await
        })
    }

    fn count_lineages(&self) -> BoxFuture<'_, Result<u64>> {
        let counted = self.one(lineages::COUNT, (), |row| Ok(row.get(0)?));
        Box::pin(async move { Ok(counted.await?.unwrap_or_default()) })
    }

    fn count_due(&self, most: usize) -> BoxFuture<'_, Result<u64>> {
        let values = (self.file.options.clock.now(), catalog_row::limit(most));
        let counted = self.one(lineages::COUNT_DUE, values, |row| Ok(row.get(0)?));
        Box::pin(async move { Ok(counted.await?.unwrap_or_default()) })
    }
}

/// A disk answers more than one read at a time, a core runs only one.
const READERS: usize = 2;
/// Calls that wait for a thread; those behind more would outlive their deadlines.
const MAX_WAITING: usize = 1024;
