//! Claims of lineages.

use std::time::Duration;

use futures_util::future::{try_join, try_join5};
use sekisho_certs::host::HostName;
use sekisho_certs::lineage::{
    Claim, LineageName, MAX_CANDIDATES, MAX_PASSED_OVER, ToClaim, UNTAKEN,
};
use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::Step;
use super::params::{Params, column};
use super::read::now_ms;
use super::rows::get;
use super::write::BEGIN;
use crate::catalog_row;
use crate::lineage_row;

/// Claims lineages in one transaction of one round trip. It begins with the lock
/// of the row that counts tokens: those who claim take turns, and each sees the
/// claims of the one before.
pub(super) async fn claim(
    on: &Connection,
    which: &ToClaim,
    holder: &str,
    ttl: Duration,
    now_ms: Option<i64>,
) -> Step<Vec<(LineageName, Claim)>> {
    let ttl = lineage_row::ttl_ms(ttl);
    let (limit, most, passed_over, zones, names);
    let (text, params): (&str, Params<'_>) = match which {
        ToClaim::Due { limit: count, able } => {
            limit = catalog_row::limit(*count);
            most = catalog_row::limit(MAX_CANDIDATES).max(limit);
            passed_over = catalog_row::limit(MAX_PASSED_OVER).saturating_add(most);
            zones = column(&able.zones, HostName::as_str);
            (
                CLAIM_DUE,
                &[
                    &now_ms,
                    &holder,
                    &ttl,
                    &limit,
                    &most,
                    &passed_over,
                    &UNTAKEN,
                    &able.cas,
                    &able.without_dns,
                    &zones,
                    &able.everywhere,
                ],
            )
        }
        ToClaim::Named(named) => {
            names = column(named, LineageName::as_str);
            (CLAIM_NAMED, &[&now_ms, &holder, &ttl, &names])
        }
    };
    let read = |row: &Row| {
        let claim = Claim {
            holder: holder.to_owned(),
            until_ms: get(row, 1)?,
            epoch: catalog_row::number(row, 2)?,
        };
        Ok((lineage_row::name(row)?, claim))
    };
    // Sent together and done in this order.
    let (_, _, _, claimed, ()) = try_join5(
        try_join(on.run(BEGIN), on.run(PLAN_BY_INDEX)),
        on.query(NEXT_TOKEN, &[]),
        on.query(PRUNE, &[&now_ms]),
        on.list(text, params, read),
        on.run("COMMIT"),
    )
    .await?;
    Ok(claimed)
}

/// The planner's statistics lag behind an import: it would sort millions of rows,
/// and compile the statement for that. Claims are to be hashed, however many.
const PLAN_BY_INDEX: &str = "SET LOCAL jit = off; SET LOCAL work_mem = '64MB';
    SET LOCAL enable_seqscan = off; SET LOCAL enable_sort = off";

const NEXT_TOKEN: &str = "UPDATE sekisho.fence SET token = token + 1";

/// Deletes claims that have ended: a claim of what is due then has no conflict,
/// whose handling would take most of its time. One that a writer has locked stays
/// for now, and counts.
const PRUNE: &str = concat!(
    "DELETE FROM sekisho.lineage_claims WHERE name IN (
    SELECT name FROM sekisho.lineage_claims WHERE until_ms <= ",
    now_ms!("$1"),
    " FOR UPDATE SKIP LOCKED)"
);

/// Whether the holder can get its certificate, or nobody has for long. Only what is due
/// and free is read for this: the indexes have neither names nor CA.
macro_rules! able {
    () => {
        "(l.due <= (SELECT now - $7 FROM claim) OR (
        SELECT (n.ca IS NULL OR n.ca = ANY ($8::text[]))
            AND ($11::bool OR $9::bool AND strpos(n.names, '*') = 0 OR NOT EXISTS (
                SELECT FROM unnest(string_to_array(n.names, ' ')) one
                WHERE NOT EXISTS (SELECT FROM unnest($10::text[]) zone
                    WHERE one = zone OR right(one, length(zone) + 1) = '.' || zone)))
        FROM sekisho.lineages n WHERE n.name = l.name))"
    };
}

/// Claims what is due. Computes the times once: as a part of each row's expressions
/// they would take a fifth of the time. All rows of the answer have one end and one
/// epoch, so that none comes back from the table.
///
/// Looks for turns only if more are due than were looked at. Both look at lineages that
/// are not for this holder now, too: the inner limits bound the time.
pub(super) const CLAIM_DUE: &str = concat!(
    "WITH clock AS MATERIALIZED (
    SELECT ",
    now_ms!("$1"),
    " AS ms
), claim AS MATERIALIZED (
    SELECT ms + $3 AS until_ms, ms / 1000 AS now, token FROM clock, sekisho.fence
), taken AS MATERIALIZED (
    SELECT name FROM sekisho.lineage_claims
), longest AS MATERIALIZED (
    SELECT l.name, l.turn FROM (
        SELECT name, turn, due FROM sekisho.lineages
        WHERE due <= (SELECT now FROM claim) ORDER BY due LIMIT $6
    ) l
    WHERE l.name NOT IN (SELECT name FROM taken) AND ",
    able!(),
    "
    ORDER BY l.due LIMIT $5
), first AS MATERIALIZED (
    SELECT l.name, l.turn FROM (
        SELECT name, turn, due FROM sekisho.lineages
        WHERE due IS NOT NULL AND (SELECT count(*) FROM longest) = $5
        ORDER BY turn LIMIT $6
    ) l
    WHERE l.due <= (SELECT now FROM claim) AND l.name NOT IN (SELECT name FROM taken)
        AND ",
    able!(),
    "
    ORDER BY l.turn LIMIT $5
), chosen AS MATERIALIZED (
    SELECT name, turn FROM longest
    UNION SELECT name, turn FROM first
    ORDER BY turn, name LIMIT $4
), claimed AS (
    INSERT INTO sekisho.lineage_claims (name, holder, until_ms, epoch)
    SELECT name, $2, until_ms, token FROM chosen, claim ORDER BY name
)
SELECT name, until_ms, token FROM chosen, claim ORDER BY turn, name"
);

pub(super) const CLAIM_NAMED: &str = concat!(
    "WITH chosen AS MATERIALIZED (
    SELECT l.name, l.turn FROM sekisho.lineages l
    LEFT JOIN sekisho.lineage_claims c ON c.name = l.name AND c.until_ms > ",
    now_ms!("$1"),
    " WHERE l.name = ANY ($4) AND (c.holder IS NULL OR c.holder = $2)
), claimed AS (
    INSERT INTO sekisho.lineage_claims AS held (name, holder, until_ms, epoch)
    SELECT chosen.name, $2, ",
    now_ms!("$1"),
    " + $3, (SELECT token FROM sekisho.fence) FROM chosen ORDER BY chosen.name
    ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, until_ms = excluded.until_ms,
        epoch = CASE WHEN held.until_ms > ",
    now_ms!("$1"),
    " THEN held.epoch ELSE excluded.epoch END
    RETURNING name, until_ms, epoch
)
SELECT name, until_ms, epoch FROM claimed JOIN chosen USING (name) ORDER BY turn, name"
);
