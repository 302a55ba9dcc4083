//! Lineages and their claims. Claims are rows of their own: claiming a thousand
//! lineages writes few pages.

use std::collections::BTreeSet;
use std::time::Duration;

use rusqlite::{Row, Transaction, TransactionBehavior, params};

use super::read::StoreConnection;
use super::rows::{Fault, Step};
use super::statements::{first, list, run};
use crate::catalog_row;
use crate::lineage_row;
use crate::plan::Plan;
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::host::HostName;
use sekisho_certs::lineage::{
    Able, Claim, Lineage, LineageName, MAX_CANDIDATES, MAX_PASSED_OVER, ToClaim, UNTAKEN,
};
use sekisho_certs::store::Result;

impl StoreConnection {
    pub(super) fn claim(
        &mut self,
        which: &ToClaim,
        holder: &str,
        ttl: Duration,
        now_ms: i64,
    ) -> Result<Vec<(LineageName, Claim)>> {
        let until_ms = now_ms.saturating_add(lineage_row::ttl_ms(ttl));
        self.run(|connection| {
            let sql = connection.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let chosen = match which {
                ToClaim::Due { limit, able } => due(&sql, *limit, able, now_ms)?,
                ToClaim::Named(names) => named(&sql, names, holder, now_ms)?,
            };
            if chosen.is_empty() {
                return Ok(Vec::new());
            }
            let token = next_token(&sql)?;
            let mut claimed = Vec::with_capacity(chosen.len());
            for Chosen { name, own, .. } in chosen {
                let epoch = own.unwrap_or(token);
                run(&sql, CLAIM, (&name, holder, until_ms, epoch))?;
                let name = LineageName::parse(&name).map_err(Fault::Value)?;
                let holder = holder.to_owned();
                let claim = Claim {
                    holder,
                    until_ms,
                    epoch,
                };
                claimed.push((name, claim));
            }
            sql.commit()?;
            Ok(claimed)
        })
    }
}

/// Takes the next epoch, from one counter for all lineages: it still grows after the row
/// of a claim is gone.
fn next_token(sql: &Transaction<'_>) -> Step<u64> {
    let text = "UPDATE meta SET token = token + 1 RETURNING token";
    first(sql, text, (), |row| row.get(0))?.ok_or_else(Fault::no_meta)
}

/// Lineage to claim, in the order of the turns.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Chosen {
    turn: i64,
    name: String,
    /// Epoch of the holder's own claim, which is prolonged.
    own: Option<u64>,
}

fn due(sql: &Transaction<'_>, limit: usize, able: &Able, now_ms: i64) -> Step<BTreeSet<Chosen>> {
    let row = |row: &Row<'_>| {
        Ok(Chosen {
            turn: row.get(1)?,
            name: row.get(0)?,
            own: None,
        })
    };
    let most = catalog_row::limit(MAX_CANDIDATES.max(limit));
    let passed_over = catalog_row::limit(MAX_PASSED_OVER).saturating_add(most);
    let now = now_ms.div_euclid(1000);
    let (cas, zones) = (lines(&able.cas), json(&able.zones));
    let values = params![
        now,
        now_ms,
        most,
        passed_over,
        now - UNTAKEN,
        cas,
        able.without_dns,
        zones,
        able.everywhere
    ];
    let mut chosen: BTreeSet<Chosen> = list(sql, LONGEST_DUE, values, row)?.into_iter().collect();
    if catalog_row::limit(chosen.len()) == most {
        chosen.extend(list(sql, FIRST_TURNS, values, row)?);
    }
    Ok(chosen.into_iter().take(limit).collect())
}

/// Returns each name of a CA between two ends of lines.
fn lines(names: &[String]) -> String {
    let lines = names.iter().map(|name| format!("\n{name}\n"));
    lines.collect()
}

/// Returns a JSON array. Names of hosts hold nothing that would be escaped.
fn json(names: &[HostName]) -> String {
    let names: Vec<_> = names.iter().map(|name| format!("\"{name}\"")).collect();
    format!("[{}]", names.join(","))
}

fn named(
    sql: &Transaction<'_>,
    names: &[LineageName],
    holder: &str,
    now_ms: i64,
) -> Step<BTreeSet<Chosen>> {
    let mut chosen = BTreeSet::new();
    for name in names {
        let row = |row: &Row<'_>| {
            Ok(Chosen {
                turn: row.get(0)?,
                name: name.to_string(),
                own: row.get(1)?,
            })
        };
        chosen.extend(list(sql, NAMED, (name.as_str(), holder, now_ms), row)?);
    }
    Ok(chosen)
}

/// Writes lineages, and deletes the claims that end with that.
pub(super) fn put(sql: &Transaction<'_>, plan: &Plan) -> Step<()> {
    for (name, lineage) in &plan.lineages {
        match lineage {
            Some(lineage) => put_one(sql, lineage)?,
            None => run(sql, REMOVE, [name.as_str()])?,
        }
    }
    for name in plan.released() {
        run(sql, RELEASE, [name])?;
    }
    Ok(())
}

fn put_one(sql: &Transaction<'_>, lineage: &Lineage<SealedBytes>) -> rusqlite::Result<()> {
    let (wishes, error) = (&lineage.wishes, lineage.last_error.as_ref());
    let order = lineage.order.as_ref();
    let values = params![
        lineage.name.as_str(),
        lineage.tenant.as_str(),
        lineage_row::names(&lineage.names),
        wishes.ca,
        wishes.profile,
        wishes.key_type.map(KeyType::as_str),
        wishes.solver,
        lineage.credential.map(CredentialId::as_u64),
        lineage.due,
        lineage.turn,
        lineage.attempts,
        error.map(|error| error.at),
        error.map(|error| &error.text),
        order.map(|order| order.key_id),
        order.map(|order| order.nonce),
        order.map(|order| &order.bytes),
        lineage.issued_by,
    ];
    run(sql, PUT, values)
}

macro_rules! select {
    ($which:literal) => {
        concat!(
            "SELECT ",
            lineage_row::columns!(),
            "
FROM lineages l LEFT JOIN lineage_claims c ON c.name = l.name AND c.until_ms > ?1
WHERE ",
            $which
        )
    };
}

pub(super) const LINEAGE: &str = select!("l.name = ?2");

pub(super) const LINEAGES_OF: &str = select!("l.credential = ?2");

pub(super) const LINEAGES: &str = select!("l.name > ?2 ORDER BY l.name LIMIT ?3");

pub(super) const FAILING_LINEAGES: &str =
    select!("l.attempts > 0 AND l.name > ?2 ORDER BY l.name LIMIT ?3");

pub(super) const LINEAGES_WITHOUT: &str =
    select!("l.credential IS NULL AND l.name > ?2 ORDER BY l.name LIMIT ?3");

pub(super) const COUNT: &str = "SELECT count(*) FROM lineages";

/// Counts in the index, up to a bound.
pub(super) const COUNT_DUE: &str =
    "SELECT count(*) FROM (SELECT 1 FROM lineages WHERE due <= ?1 LIMIT ?2)";

/// Reads whether a lineage exists, and the epoch of the claim that holds.
pub(super) const HELD: &str = "SELECT (SELECT c.epoch FROM lineage_claims c
        WHERE c.name = l.name AND c.until_ms > ?2)
    FROM lineages l WHERE l.name = ?1";

macro_rules! free {
    () => {
        "NOT EXISTS (SELECT 1 FROM lineage_claims c WHERE c.name = l.name AND c.until_ms > ?2)"
    };
}

/// Whether the holder can get its certificate, or nobody has for long. Only what is due
/// and free is read for this: the indexes have neither names nor CA.
macro_rules! able {
    () => {
        "(l.due <= ?5 OR (SELECT (n.ca IS NULL OR instr(?6, char(10) || n.ca || char(10)) > 0)
            AND (?9 OR ?7 AND instr(n.names, '*') = 0 OR NOT EXISTS (
                SELECT 1 FROM json_each('[\"' || replace(n.names, ' ', '\",\"') || '\"]') one
                WHERE NOT EXISTS (SELECT 1 FROM json_each(?8) zone
                    WHERE one.value = zone.value
                    OR substr(one.value, -length(zone.value) - 1) = '.' || zone.value)))
            FROM lineages n WHERE n.name = l.name))"
    };
}

/// Looks at lineages that others are to take, too: the inner limit bounds the time.
pub(super) const LONGEST_DUE: &str = concat!(
    "SELECT l.name, l.turn FROM (
        SELECT name, turn, due FROM lineages WHERE due <= ?1 ORDER BY due LIMIT ?4) l WHERE ",
    free!(),
    " AND ",
    able!(),
    " ORDER BY l.due LIMIT ?3"
);

/// Looks at lineages that are not due yet, too: the inner limit bounds the time.
const FIRST_TURNS: &str = concat!(
    "SELECT l.name, l.turn FROM (
        SELECT name, turn, due FROM lineages WHERE due IS NOT NULL
        ORDER BY turn LIMIT ?4) l WHERE l.due <= ?1 AND ",
    free!(),
    " AND ",
    able!(),
    " ORDER BY l.turn LIMIT ?3"
);

const NAMED: &str = "SELECT l.turn, c.epoch FROM lineages l
    LEFT JOIN lineage_claims c ON c.name = l.name AND c.until_ms > ?3
    WHERE l.name = ?1 AND (c.holder IS NULL OR c.holder = ?2)";

const CLAIM: &str = "INSERT OR REPLACE INTO lineage_claims (name, holder, until_ms, epoch)
    VALUES (?1, ?2, ?3, ?4)";

const PUT: &str = "INSERT INTO lineages (name, tenant, names, ca, profile, key_type, solver,
    credential, due, turn, attempts, error_at, error, key_id, nonce, bytes, issued_by)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17)
    ON CONFLICT (name) DO UPDATE SET tenant = ?2, names = ?3, ca = ?4, profile = ?5,
    key_type = ?6, solver = ?7, credential = ?8, due = ?9, turn = ?10, attempts = ?11,
    error_at = ?12, error = ?13, key_id = ?14, nonce = ?15, bytes = ?16,
    issued_by = ?17";

const REMOVE: &str = "DELETE FROM lineages WHERE name = ?1";

const RELEASE: &str = "DELETE FROM lineage_claims WHERE name = ?1";

/// An order has no version: its nonce is drawn anew for each sealing.
pub(super) const RESEAL: &str = "UPDATE lineages SET key_id = ?5, nonce = ?6, bytes = ?7
    WHERE name = ?8 AND key_id = ?2 AND nonce = ?3 AND bytes = ?4";

/// Adds the CA that issued the credential, after [`TABLES`].
pub(super) const ISSUED_BY: &str = "
-- URL of the CA's directory
ALTER TABLE lineages ADD COLUMN issued_by TEXT;
";

/// Indexes of what is due hold all that a claim compares. Orders are sealed.
pub(super) const TABLES: &str = "
CREATE TABLE lineages (
    name TEXT PRIMARY KEY,
    tenant TEXT NOT NULL,
    -- patterns with a space between two
    names TEXT NOT NULL,
    ca TEXT,
    profile TEXT,
    key_type TEXT,
    solver TEXT,
    credential INTEGER,
    -- seconds since the Unix epoch
    due INTEGER,
    turn INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    error_at INTEGER,
    error TEXT,
    key_id INTEGER,
    nonce BLOB,
    bytes BLOB
) STRICT, WITHOUT ROWID;
CREATE INDEX lineages_by_due ON lineages (due, turn) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_turn ON lineages (turn, due) WHERE due IS NOT NULL;
CREATE INDEX lineages_by_credential ON lineages (credential) WHERE credential IS NOT NULL;
CREATE INDEX lineages_failing ON lineages (name) WHERE attempts > 0;

CREATE TABLE lineage_claims (
    name TEXT PRIMARY KEY,
    holder TEXT NOT NULL,
    until_ms INTEGER NOT NULL,
    epoch INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
";
