//! Lists, and the completion of an older program's tables for them, while servers read and
//! write.

use tokio::time::timeout;
use tokio_postgres::Row;

use super::Postgres;
use super::connection::Dialer;
use super::fault::{Fault, Step};
use super::params::{Owned, Param};
use super::rows::get;
use super::schema::create_index;
use crate::catalog_row::unnamed_host;
use crate::lists::{self, List, Value};
use crate::upgrade::{Upgrade, require_index};
use sekisho_certs::store::{BoxFuture, Result, StoreError};

impl Postgres {
    /// Reads a page of a list, unless it lacks its index and would read the whole table.
    pub(super) async fn page<T: Send + 'static>(
        &self,
        list: List,
        row: fn(&Row) -> Step<T>,
    ) -> Result<Vec<T>> {
        require_index(self, list.index).await?;
        self.rows(list, row).await
    }

    fn rows<T: Send + 'static>(
        &self,
        list: List,
        row: fn(&Row) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        let text = translate(&list);
        let values = list.values.into_iter();
        let params = values.map(|value| -> Box<dyn Param + Send> {
            match value {
                Value::Text(text) => Box::new(text),
                Value::Number(number) => Box::new(number),
            }
        });
        self.list(text, params.collect(), row)
    }
}

/// Writes a statement in PostgreSQL's dialect. Tenants have the database's order there, and
/// lists compare bytes.
pub(super) fn translate(list: &List) -> String {
    let by = format!(" INDEXED BY {}", list.index);
    let text = list.text.replace(&by, "");
    let text = text.replace("h.tenant", r#"h.tenant COLLATE "C""#);
    text.replace("main.", "sekisho.").replace('?', "$")
}

impl Upgrade for Postgres {
    async fn indexes(&self) -> Result<Vec<String>> {
        let indexes = self.list(INDEXES, Vec::new(), |row| get::<String>(row, 0));
        indexes.await
    }

    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>> {
        self.rows(lists::unnamed(after), unnamed_host).await
    }

    async fn name(&self, hosts: Vec<(String, String)>) -> Result<()> {
        let (patterns, names): (Vec<_>, Vec<_>) = hosts.into_iter().unzip();
        let params: Owned = vec![Box::new(patterns), Box::new(names)];
        self.list(NAME, params, |_| Ok(())).await.map(drop)
    }

    async fn build(&self, index: &'static str) -> Result<()> {
        let dialer = &self.pool.dialer;
        let built = build(dialer, index).await;
        built.map_err(|fault| fault.at(&dialer.url))
    }
}

/// Builds an index beside readers and writers, on a connection of its own: the statement
/// takes minutes, and waits for each transaction of the database that began before it.
async fn build(dialer: &Dialer, index: &str) -> Step<()> {
    let bound = dialer.options.connect;
    let connected = timeout(bound, dialer.connect(|_| {})).await;
    let on = connected.map_err(|_| Fault::Away(format!("no connection within {bound:?}")))??;
    if !dialer.url.pgbouncer {
        on.run(NO_LIMITS).await?;
    }
    let name = index.split(' ').next().unwrap_or(index);
    let broken = on.list(BROKEN, &[&name], |row| get::<bool>(row, 0)).await?;
    match broken.first() {
        None => {}
        Some(true) => {
            let why = format!("another session builds the index {name}; wait for its end");
            return Err(StoreError::Refused(why.into()).into());
        }
        Some(false) => {
            let text = format!("DROP INDEX CONCURRENTLY sekisho.{name}");
            on.run(&text).await?;
        }
    }
    let text = create_index("CONCURRENTLY IF NOT EXISTS ", index);
    on.run(&text).await
}

const INDEXES: &str = "SELECT c.relname::text FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'sekisho' AND i.indisvalid";

/// Tells of an index that is not whole whether a session builds it.
const BROKEN: &str = "SELECT EXISTS (
        SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    FROM pg_index i WHERE i.indexrelid = to_regclass('sekisho.' || $1) AND NOT i.indisvalid";

/// A role may have limits, which are meant for lookups.
const NO_LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = 0";

/// Locks in the order of the patterns, as writers do: two that lock several never wait for
/// each other.
pub(super) const NAME: &str = "
WITH locked AS MATERIALIZED (
    SELECT pattern FROM sekisho.hosts WHERE pattern = ANY ($1) AND reversed IS NULL
    ORDER BY pattern FOR UPDATE
)
UPDATE sekisho.hosts h SET reversed = n.name
FROM unnest($1::text[], $2::text[]) AS n (pattern, name)
JOIN locked ON locked.pattern = n.pattern
WHERE h.pattern = n.pattern";
