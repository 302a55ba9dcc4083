//! Lists, and the completion of an older program's file for them. Readers do not wait for it.
//! Writers wait for one page of names, or for one index.

use rusqlite::types::Value;
use rusqlite::{Row, TransactionBehavior, params_from_iter};

use super::Sqlite;
use super::rows::Step;
use super::statements::run;
use crate::catalog_row::unnamed_host;
use crate::lists::{self, List};
use crate::upgrade::{Upgrade, require_index};
use sekisho_certs::store::{BoxFuture, Result};

impl Sqlite {
    /// Reads a page of a list, unless it lacks its index.
    pub(super) async fn page<T: Send + 'static>(
        &self,
        list: List,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> Result<Vec<T>> {
        require_index(self, list.index).await?;
        self.rows(list, row).await
    }

    fn rows<T: Send + 'static>(
        &self,
        list: List,
        row: fn(&Row<'_>) -> Step<T>,
    ) -> BoxFuture<'_, Result<Vec<T>>> {
        let values = list.values.into_iter().map(|value| match value {
            lists::Value::Text(text) => Value::from(text),
            lists::Value::Number(number) => Value::from(number),
        });
        let values: Vec<_> = values.collect();
        self.read(move |connection| connection.list(&list.text, params_from_iter(values), row))
    }
}

impl Upgrade for Sqlite {
    async fn indexes(&self) -> Result<Vec<String>> {
        self.list(INDEXES, (), |row| Ok(row.get(0)?)).await
    }

    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>> {
        let unnamed = self.rows(lists::unnamed(after), |row| unnamed_host(row));
        unnamed.await
    }

    async fn name(&self, hosts: Vec<(String, String)>) -> Result<()> {
        let name = self.change(move |connection| {
            connection.run(|connection| {
                let sql = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
                for (pattern, name) in &hosts {
                    run(&sql, NAME, [pattern, name])?;
                }
                Ok(sql.commit()?)
            })
        });
        name.await
    }

    async fn build(&self, index: &'static str) -> Result<()> {
        let text = format!("CREATE INDEX IF NOT EXISTS {index}");
        let build = self.change(move |connection| {
            connection.run(|connection| Ok(connection.execute_batch(&text)?))
        });
        build.await
    }
}

const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type = 'index'";

const NAME: &str = "UPDATE hosts SET reversed = ?2 WHERE pattern = ?1 AND reversed IS NULL";
