//! Leases: rows whose time is still to come.

use std::time::Duration;

use rusqlite::{Row, Transaction, TransactionBehavior};

use super::log::no_meta;
use super::read::StoreConnection;
use super::rows::Step;
use super::statements::{first, run};
use crate::lineage_row::ttl_ms;
use sekisho_certs::store::{Lease, Result};

impl StoreConnection {
    pub(super) fn lease(
        &mut self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now_ms: i64,
    ) -> Result<Option<Lease>> {
        let expires_ms = now_ms.saturating_add(ttl_ms(ttl));
        self.run(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let held = |row: &Row<'_>| Ok((row.get::<_, String>(0)?, row.get(1)?));
            let token = match first(&transaction, HELD, (name, now_ms), held)? {
                Some((other, _)) if other != holder => return Ok(None),
                Some((_, token)) => token,
                None => next_token(&transaction)?,
            };
            run(&transaction, PRUNE, (now_ms, MAX_PRUNED))?;
            run(&transaction, PUT, (name, holder, token, expires_ms))?;
            transaction.commit()?;
            Ok(Some(Lease { token, expires_ms }))
        })
    }

    pub(super) fn release(&mut self, name: &str, holder: &str) -> Result<()> {
        self.run(|connection| {
            let sql = "DELETE FROM leases WHERE name = ?1 AND holder = ?2";
            run(connection, sql, (name, holder))?;
            Ok(())
        })
    }
}

/// Takes the next token, from one counter for all names: a token still grows
/// after its row is gone.
pub(super) fn next_token(sql: &Transaction<'_>) -> Step<u64> {
    let text = "UPDATE meta SET token = token + 1 RETURNING token";
    first(sql, text, (), |row| row.get(0))?.ok_or_else(no_meta)
}

const HELD: &str = "SELECT holder, token FROM leases WHERE name = ?1 AND expires_ms > ?2";
const PUT: &str = "INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4)";
/// A table of leases is small: what is over is found by a scan.
const PRUNE: &str = "DELETE FROM leases WHERE name IN
    (SELECT name FROM leases WHERE expires_ms <= ?1 LIMIT ?2)";

/// Leases that one call cuts off.
const MAX_PRUNED: i64 = 100;
