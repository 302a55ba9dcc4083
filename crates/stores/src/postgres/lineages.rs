//! Lineages and their claims. Claims are rows of their own: claiming a thousand
//! lineages writes few pages.

use futures_util::future::{try_join3, try_join4};
use tokio_postgres::Row;

use super::connection::Connection;
use super::fault::Step;
use super::params::column;
use super::read::now_ms;
use super::rows::get;
use super::write::There;
use crate::catalog_row::signed;
use crate::lineage_row;
use crate::plan::Plan;
use sekisho_certs::credential::{KeyType, SealedBytes};
use sekisho_certs::lineage::{Lineage, LineageName};

/// Reads which lineages exist, with the epochs of the claims that hold. They and their
/// claims are locked: none is written or taken by another until the transaction's end.
pub(super) async fn held(
    on: &Connection,
    names: &[&LineageName],
    now_ms: Option<i64>,
) -> Step<Vec<(LineageName, Option<u64>)>> {
    if names.is_empty() {
        return Ok(Vec::new());
    }
    let names = column(names, |name| name.as_str());
    let read = |row: &Row| {
        let epoch: Option<i64> = get(row, 1)?;
        Ok((lineage_row::name(row)?, epoch.map(i64::cast_unsigned)))
    };
    let (_, _, held) = try_join3(
        on.query(LOCK, &[&names]),
        on.query(LOCK_CLAIMS, &[&names]),
        on.list(HELD, &[&now_ms, &names], read),
    )
    .await?;
    Ok(held)
}

/// Writes lineages, and deletes the claims that end with that. Tells whether all rows
/// were written that were to be new.
pub(super) async fn put(on: &Connection, plan: &Plan, there: &There) -> Step<bool> {
    if plan.lineages.is_empty() {
        return Ok(true);
    }
    let gone = plan.lineages.iter().filter(|one| one.1.is_none());
    let gone: Vec<_> = gone.map(|one| one.0.as_str()).collect();
    let released: Vec<_> = plan.released().collect();
    let puts = plan.lineages.values().flatten();
    let (old, new): (Vec<_>, Vec<_>) = puts.partition(|one| there.lineages.contains(&one.name));
    let (_, _, _, made) = try_join4(
        on.query(REMOVE, &[&gone]),
        on.query(RELEASE, &[&released]),
        put_rows(on, &old, PUT),
        put_rows(on, &new, NEW),
    )
    .await?;
    Ok(made == new.len())
}

/// Returns how many rows the statement tells.
async fn put_rows(on: &Connection, puts: &[&Lineage<SealedBytes>], text: &str) -> Step<usize> {
    if puts.is_empty() {
        return Ok(0);
    }
    let wishes = column(puts, |one| &one.wishes);
    let errors = column(puts, |one| one.last_error.as_ref());
    let orders = column(puts, |one| one.order.as_ref());
    let rows = on
        .query(
            text,
            &[
                &column(puts, |one| one.name.as_str()),
                &column(puts, |one| one.tenant.as_str()),
                &column(puts, |one| lineage_row::names(&one.names)),
                &column(&wishes, |one| one.ca.as_deref()),
                &column(&wishes, |one| one.profile.as_deref()),
                &column(&wishes, |one| one.key_type.map(KeyType::as_str)),
                &column(&wishes, |one| one.solver.as_deref()),
                &column(puts, |one| one.credential.map(|id| signed(id.as_u64()))),
                &column(puts, |one| one.due),
                &column(puts, |one| one.turn),
                &column(puts, |one| i64::from(one.attempts)),
                &column(&errors, |one| one.map(|error| error.at)),
                &column(&errors, |one| one.map(|error| error.text.as_str())),
                &column(&orders, |one| one.map(|order| i64::from(order.key_id))),
                &column(&orders, |one| one.map(|order| &order.nonce[..])),
                &column(&orders, |one| one.map(|order| &order.bytes[..])),
                &column(puts, |one| one.issued_by.as_deref()),
            ],
        )
        .await?;
    Ok(rows.len())
}

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT ",
            lineage_row::columns!(),
            "
FROM sekisho.lineages l
LEFT JOIN sekisho.lineage_claims c ON c.name = l.name AND c.until_ms > ",
            now_ms!("$1"),
            " WHERE ",
            $which
        )
    };
}

pub(super) const LINEAGES: &str = select!("l.name = ANY ($2)");

pub(super) const LINEAGES_OF: &str = select!("l.credential = ANY ($2)");

pub(super) const LIST_LINEAGES: &str = select!("l.name > $2 ORDER BY l.name LIMIT $3");

pub(super) const LIST_FAILING: &str =
    select!("l.attempts > 0 AND l.name > $2 ORDER BY l.name LIMIT $3");

pub(super) const LIST_WITHOUT: &str =
    select!("l.credential IS NULL AND l.name > $2 ORDER BY l.name LIMIT $3");

/// In one order: two that lock several never wait for each other.
pub(super) const LOCK: &str =
    "SELECT FROM sekisho.lineages WHERE name = ANY ($1) ORDER BY name FOR UPDATE";

const LOCK_CLAIMS: &str =
    "SELECT FROM sekisho.lineage_claims WHERE name = ANY ($1) ORDER BY name FOR UPDATE";

pub(super) const HELD: &str = concat!(
    "SELECT l.name, c.epoch FROM sekisho.lineages l
LEFT JOIN sekisho.lineage_claims c ON c.name = l.name AND c.until_ms > ",
    now_ms!("$1"),
    " WHERE l.name = ANY ($2)"
);

const REMOVE: &str = "DELETE FROM sekisho.lineages WHERE name = ANY ($1)";

const RELEASE: &str = "DELETE FROM sekisho.lineage_claims WHERE name = ANY ($1)";

macro_rules! insert {
    ($conflict:literal) => {
        concat!(
            "
INSERT INTO sekisho.lineages (name, tenant, names, ca, profile, key_type, solver, credential,
    due, turn, attempts, error_at, error, key_id, nonce, bytes, issued_by)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[],
    $7::text[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::bigint[],
    $13::text[], $14::bigint[], $15::bytea[], $16::bytea[], $17::text[])
ON CONFLICT (name) ",
            $conflict
        )
    };
}

const PUT: &str = insert!(
    "DO UPDATE SET tenant = excluded.tenant, names = excluded.names,
    ca = excluded.ca, profile = excluded.profile, key_type = excluded.key_type,
    solver = excluded.solver, credential = excluded.credential, due = excluded.due,
    turn = excluded.turn, attempts = excluded.attempts, error_at = excluded.error_at,
    error = excluded.error, key_id = excluded.key_id, nonce = excluded.nonce,
    bytes = excluded.bytes, issued_by = excluded.issued_by"
);

/// Tells a row for each that it has made.
const NEW: &str = insert!("DO NOTHING RETURNING true");

/// An order has no version: its nonce is drawn anew for each sealing.
pub(super) const RESEAL: &str = "
UPDATE sekisho.lineages SET key_id = $5, nonce = $6, bytes = $7
WHERE key_id = $2 AND nonce = $3 AND bytes = $4 AND name = $8";

/// Adds the CA that issued the credential. The column has no default: no row is
/// rewritten.
pub(super) const ISSUED_BY: &str = "
-- URL of the CA's directory
ALTER TABLE sekisho.lineages ADD COLUMN issued_by text;
";

/// Indexes of what is due hold all that a claim compares. A claim begins at their
/// start, where renewals leave dead entries: a vacuum comes after one in a hundred.
/// Orders are sealed.
/// Programs of version 2 write the column `renew_at` of credentials, which
/// stays, and nobody reads.
pub(super) const TABLES: &str = r#"
DROP INDEX sekisho.due;

CREATE TABLE sekisho.lineages (
    name text COLLATE "C" PRIMARY KEY,
    tenant text NOT NULL,
    -- patterns with a space between two
    names text NOT NULL,
    ca text,
    profile text,
    key_type text,
    solver text,
    credential bigint,
    -- seconds since the Unix epoch
    due bigint,
    turn bigint NOT NULL,
    attempts bigint NOT NULL,
    error_at bigint,
    error text,
    key_id bigint,
    nonce bytea,
    bytes bytea
) WITH (autovacuum_vacuum_scale_factor = 0.01);
CREATE INDEX lineages_by_due ON sekisho.lineages (due, turn, name) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_turn ON sekisho.lineages (turn, due, name) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_credential ON sekisho.lineages (credential)
    WHERE credential IS NOT NULL;
CREATE INDEX lineages_failing ON sekisho.lineages (name) WHERE attempts > 0;

CREATE TABLE sekisho.lineage_claims (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    until_ms bigint NOT NULL,
    epoch bigint NOT NULL
);
"#;
