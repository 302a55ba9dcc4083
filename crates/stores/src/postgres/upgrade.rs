//! Naming hosts and building indexes, while servers read and write.

use tokio::time::timeout;

use super::Postgres;
use super::connection::Dialer;
use super::fault::{Fault, Step};
use super::list::{NAME, UNNAMED};
use super::params::Owned;
use super::rows::get;
use super::schema::create_index;
use crate::catalog_row::unnamed_host;
use crate::upgrade::Upgrade;
use sekisho_certs::store::{Result, StoreError};

impl Upgrade for Postgres {
    async fn indexes(&self) -> Result<Vec<String>> {
        let indexes = self.list(INDEXES, Vec::new(), |row| get::<String>(row, 0));
        indexes.await
    }

    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>> {
        let unnamed = self.list(UNNAMED, vec![Box::new(after)], unnamed_host);
        unnamed.await
    }

    async fn name(&self, hosts: Vec<(String, String)>) -> Result<()> {
        let (patterns, names): (Vec<_>, Vec<_>) = hosts.into_iter().unzip();
        let params: Owned = vec![Box::new(patterns), Box::new(names)];
        self.list(NAME, params, |_| Ok(())).await.map(drop)
    }

    async fn build(&self, name: &'static str, place: &'static str) -> Result<()> {
        let dialer = &self.pool.dialer;
        let built = build(dialer, name, place).await;
        built.map_err(|fault| fault.at(&dialer.url))
    }
}

/// Builds an index beside readers and writers, on a connection of its own: the statement
/// takes minutes, and waits for each transaction of the database that began before it.
async fn build(dialer: &Dialer, name: &str, place: &str) -> Step<()> {
    let bound = dialer.options.connect;
    let connected = timeout(bound, dialer.connect(|_| {})).await;
    let on = connected.map_err(|_| Fault::Away(format!("no connection within {bound:?}")))??;
    if !dialer.url.pgbouncer {
        on.run(NO_LIMITS).await?;
    }
    let index = format!("sekisho.{name}");
    let broken = on.list(BROKEN, &[&index], |row| get::<bool>(row, 0)).await?;
    match broken.first() {
        None => {}
        Some(true) => {
            let why = format!("another session builds the index {name}; wait for its end");
            return Err(StoreError::Refused(why.into()).into());
        }
        Some(false) => on.run(&format!("DROP INDEX CONCURRENTLY {index}")).await?,
    }
    let text = create_index(&format!("CONCURRENTLY IF NOT EXISTS {name}"), place);
    on.run(&text).await
}

const INDEXES: &str = "SELECT c.relname::text FROM pg_index i
    JOIN pg_class c ON c.oid = i.indexrelid JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE n.nspname = 'sekisho' AND i.indisvalid";

/// Tells of an index that is not whole whether a session builds it.
const BROKEN: &str = "SELECT EXISTS (
        SELECT FROM pg_stat_progress_create_index p WHERE p.index_relid = i.indexrelid)
    FROM pg_index i WHERE i.indexrelid = to_regclass($1) AND NOT i.indisvalid";

/// A role may have limits, which are meant for lookups.
const NO_LIMITS: &str = "SET statement_timeout = 0; SET lock_timeout = 0";
