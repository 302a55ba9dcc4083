//! Leases: rows whose time is still to come.

use std::time::Duration;

use rusqlite::{OptionalExtension, Transaction, TransactionBehavior};

use super::read::Reader;
use super::rows::{Step, signed};
use sekisho_certs::store::{Lease, Result};

impl Reader {
    pub(super) fn lease(
        &mut self,
        name: &str,
        holder: &str,
        ttl: Duration,
        now_ms: i64,
    ) -> Result<Option<Lease>> {
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
        let expires_ms = now_ms.saturating_add(ttl_ms);
        self.run(|connection| {
            let transaction =
                connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let held = held(&transaction, name, now_ms)?;
            let token = match held {
                Some((other, _)) if other != holder => return Ok(None),
                Some((_, token)) => token,
                None => next_token(&transaction)?,
            };
            transaction
                .prepare_cached(PRUNE)?
                .execute((now_ms, PRUNE_AT_MOST))?;
            transaction
                .prepare_cached("INSERT OR REPLACE INTO leases VALUES (?1, ?2, ?3, ?4)")?
                .execute((name, holder, signed(token), expires_ms))?;
            transaction.commit()?;
            Ok(Some(Lease { token, expires_ms }))
        })
    }

    pub(super) fn release(&mut self, name: &str, holder: &str) -> Result<()> {
        self.run(|connection| {
            connection
                .prepare_cached("DELETE FROM leases WHERE name = ?1 AND holder = ?2")?
                .execute((name, holder))?;
            Ok(())
        })
    }
}

fn held(sql: &Transaction<'_>, name: &str, now_ms: i64) -> Step<Option<(String, u64)>> {
    Ok(sql
        .prepare_cached("SELECT holder, token FROM leases WHERE name = ?1 AND expires_ms > ?2")?
        .query_row((name, now_ms), |row| {
            Ok((row.get(0)?, row.get::<_, i64>(1)?.cast_unsigned()))
        })
        .optional()?)
}

/// One counter for all names: a token still grows after its row is gone.
fn next_token(sql: &Transaction<'_>) -> Step<u64> {
    let token: i64 = sql
        .prepare_cached("UPDATE meta SET token = token + 1 RETURNING token")?
        .query_row((), |row| row.get(0))?;
    Ok(token.cast_unsigned())
}

/// A table of leases is small: what is over is found by a scan.
const PRUNE: &str = "DELETE FROM leases WHERE name IN
    (SELECT name FROM leases WHERE expires_ms <= ?1 LIMIT ?2)";

/// What one call cuts off at most.
const PRUNE_AT_MOST: i64 = 100;
