//! Leases: rows whose time is still to come.

use std::time::Duration;

use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::Step;
use super::rows;
use crate::lineage_row::ttl_ms;
use sekisho_certs::store::Lease;

/// Takes or prolongs a lease. `now_ms` is none for the database's own clock.
pub(super) async fn lease(
    on: &Connection,
    name: &str,
    holder: &str,
    ttl: Duration,
    now_ms: Option<i64>,
) -> Step<Option<Lease>> {
    let ttl = ttl_ms(ttl);
    let lease = |row: &Row| {
        Ok(Lease {
            token: rows::number(row, 0)?,
            expires_ms: rows::get(row, 1)?,
        })
    };
    let rows = on.query(LEASE, &[&name, &holder, &ttl, &now_ms]).await?;
    rows.first().map(lease).transpose()
}

/// Taking a token locks the row of the fence until the statement is
/// committed, so tokens grow in the order in which holders change. Another
/// name's lease that is over goes too; a table of leases is small.
const LEASE: &str = "
WITH clock AS (
    SELECT COALESCE($4, floor(extract(epoch FROM statement_timestamp()) * 1000)::bigint) AS now
), fence AS (
    UPDATE sekisho.fence SET token = token + 1 RETURNING token
), pruned AS (
    DELETE FROM sekisho.leases WHERE name IN (
        SELECT l.name FROM sekisho.leases l, clock, fence
        WHERE l.name <> $1 AND l.expires_ms <= clock.now LIMIT 100)
)
INSERT INTO sekisho.leases AS held (name, holder, token, expires_ms)
SELECT $1, $2, fence.token, clock.now + $3 FROM clock, fence
ON CONFLICT (name) DO UPDATE SET
    holder = excluded.holder,
    token = CASE WHEN held.holder = excluded.holder AND held.expires_ms > excluded.expires_ms - $3
            THEN held.token ELSE excluded.token END,
    expires_ms = excluded.expires_ms
WHERE held.holder = excluded.holder OR held.expires_ms <= excluded.expires_ms - $3
RETURNING token, expires_ms";

pub(super) const RELEASE: &str = "DELETE FROM sekisho.leases WHERE name = $1 AND holder = $2";
