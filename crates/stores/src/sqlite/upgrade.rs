//! Naming hosts and building indexes, which readers do not wait for. Writers wait for one
//! page, or for one index.

use rusqlite::TransactionBehavior;

use super::Sqlite;
use super::list::{NAME, UNNAMED_AFTER};
use super::schema::create_index;
use super::statements::run;
use crate::catalog_row::unnamed_host;
use crate::upgrade::Upgrade;
use sekisho_certs::store::Result;

impl Upgrade for Sqlite {
    async fn indexes(&self) -> Result<Vec<String>> {
        self.list(INDEXES, (), |row| Ok(row.get(0)?)).await
    }

    async fn unnamed(&self, after: String) -> Result<Vec<(String, String)>> {
        let unnamed = self.list(UNNAMED_AFTER, [after], |row| unnamed_host(row));
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

    async fn build(&self, name: &'static str, place: &'static str) -> Result<()> {
        let text = create_index(&format!("IF NOT EXISTS {name}"), place);
        let build = self.change(move |connection| {
            connection.run(|connection| Ok(connection.execute_batch(&text)?))
        });
        build.await
    }
}

const INDEXES: &str = "SELECT name FROM sqlite_schema WHERE type = 'index'";
