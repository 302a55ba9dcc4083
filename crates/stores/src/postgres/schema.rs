//! The tables, their versions, and what tells a store of ours from none.

use super::Mode;
use super::connection::Connection;
use super::fault::{Fault, Step};
use super::lineages;
use super::rows;
use crate::upgrade::INDEXES;
use sekisho_certs::random;
use sekisho_certs::store::{CatalogId, LogId};

/// A store in a database.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    /// Version of the tables.
    version: i32,
    /// The oldest version that may read and write them.
    compatible: i32,
    pub(super) catalog: CatalogId,
    /// Identity of the log as it is stored, which never changes.
    pub(super) log: LogId,
}

/// Reads which store lies in the database, if one does.
pub(super) async fn header(on: &Connection) -> Step<Option<Header>> {
    let exists = on.list(EXISTS, &[], |row| rows::get::<bool>(row, 0));
    if exists.await? == [false] {
        return Ok(None);
    }
    let rows = on.query(HEADER, &[]).await?;
    let row = rows.first().ok_or_else(Fault::no_meta)?;
    let version = rows::get(row, 0)?;
    Ok(Some(Header {
        version,
        compatible: rows::get::<Option<i32>>(row, 2)?.unwrap_or(version),
        catalog: CatalogId(rows::id(row, 1)?),
        log: LogId(rows::id(row, 3)?),
    }))
}

/// Makes sure that there are tables of this version, and returns whose they are. Older
/// tables are migrated, newer ones refused.
pub(super) async fn settle(on: &Connection, mode: Mode) -> Step<Header> {
    match header(on).await? {
        Some(header) if header.version >= VERSION && header.compatible <= VERSION => Ok(header),
        Some(header) if header.version > VERSION => Err(newer(header)),
        None if mode == Mode::Existing => Err(Fault::Unusable(
            "there is no store in this database; `sekisho cert import` or `sekisho host set` \
             makes one, or correct [store] url"
                .into(),
        )),
        _ => {
            migrate(on, MIGRATIONS).await?;
            header(on).await?.ok_or_else(Fault::no_meta)
        }
    }
}

/// Brings the tables to the last version, in one transaction. Of several that
/// do it at once one works, and the others find it done.
pub(super) async fn migrate(on: &Connection, migrations: &[&str]) -> Step<()> {
    on.run(BEGIN).await?;
    on.query(LOCK, &[&ADVISORY_LOCK]).await?;
    let there = header(on).await?;
    let done = there.map_or(0, |header| header.version.cast_unsigned() as usize);
    let Some(missing) = migrations.get(done..) else {
        on.run("ROLLBACK").await?;
        return Err(there.map_or_else(Fault::no_meta, newer));
    };
    if there.is_some() && !missing.is_empty() {
        // In the order of writers, which lock the counter before they read tables.
        on.query(COUNTER, &[]).await?;
        on.run(SHORT_LOCKS).await?;
    }
    for migration in missing {
        on.run(migration).await?;
    }
    if there.is_none() {
        on.query(FIRST, &[&&random::<16>()[..], &&random::<16>()[..]])
            .await?;
        for index in INDEXES {
            on.run(&create_index("", index)).await?;
        }
    }
    let version = migrations.len() as i64;
    on.query(SET_VERSION, &[&version]).await?;
    on.run("COMMIT").await
}

/// Returns the statement that builds an index, with options before its name. A tenant has the
/// database's order, and lists compare bytes.
pub(super) fn create_index(options: &str, index: &str) -> String {
    let index = index.replace("(tenant", r#"(tenant COLLATE "C""#);
    let index = index.replace(" ON ", " ON sekisho.");
    format!("CREATE INDEX {options}{index}")
}

fn newer(header: Header) -> Fault {
    Fault::Unusable(format!(
        "the store has schema version {}, which takes a program of schema version {} or newer, \
         and this one has {VERSION}; use the version of the program that wrote it, or a newer one",
        header.version, header.compatible
    ))
}

/// `compatible` is a column of version 2, read where it is there.
const HEADER: &str =
    "SELECT version, catalog, (to_jsonb(m) ->> 'compatible')::integer, log FROM sekisho.meta m";
/// Held until the transaction ends.
const LOCK: &str = "SELECT pg_advisory_xact_lock($1)";
/// Never fails, since a failing statement would end the transaction. `to_regclass`
/// may not see a table that another connection has just made.
const EXISTS: &str =
    "SELECT EXISTS (SELECT FROM pg_tables WHERE schemaname = 'sekisho' AND tablename = 'meta')";
const FIRST: &str = "INSERT INTO sekisho.meta (one, version, catalog, log, number, forgotten)
           VALUES (true, 0, $1, $2, 0, 0)";
const SET_VERSION: &str = "UPDATE sekisho.meta SET version = $1";
const BEGIN: &str = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE;
    SET LOCAL client_min_messages = warning";
const COUNTER: &str = "SELECT number FROM sekisho.meta FOR UPDATE";
/// A migration waits for those who read a table, such as a dump, and each lookup that comes
/// later waits behind it: less long than a lookup may hang. The next connection of the process
/// tries again.
const SHORT_LOCKS: &str = "SET LOCAL lock_timeout = '200ms'";

/// "sekisho" as a number: advisory locks are shared by all programs on the
/// database.
const ADVISORY_LOCK: i64 = 0x0073_656b_6973_686f;
/// Version that the tables are brought to.
const VERSION: i32 = MIGRATIONS.len() as i32;
/// Each brings the tables from the version of its place to the next.
///
/// A step that rewrites a table, such as a column whose default differs from row to row
/// ([`MARKS`]), keeps all others out of it for as long: seconds for the log's 1,000,000
/// rows, minutes for 10 million hosts or lineages. Those get a column without a default,
/// or with a constant one, which PostgreSQL does not write into the rows.
const MIGRATIONS: &[&str] = &[TABLES, MARKS, lineages::TABLES, lineages::ISSUED_BY, LISTS];

/// Adds what lists filter by. `sekisho store upgrade` builds the indexes.
const LISTS: &str = r#"
ALTER TABLE sekisho.hosts
    -- the labels backwards, a dot after each; programs of version 4 leave it out
    ADD COLUMN reversed text COLLATE "C",
    -- the source that brought it, while `origin_version` is its version
    ADD COLUMN origin text COLLATE "C",
    ADD COLUMN origin_version bigint,
    -- format, a space and the document that answers while the host is suspended
    ADD COLUMN suspended text;
ALTER TABLE sekisho.credentials
    ADD COLUMN origin text COLLATE "C",
    ADD COLUMN origin_version bigint;
"#;

/// Adds the mark of changes, and who may read and write: this version and
/// later ones. Additive steps leave `compatible` as it is: new columns have
/// defaults, and statements name their columns.
const MARKS: &str = "
ALTER TABLE sekisho.meta ADD COLUMN compatible integer NOT NULL DEFAULT 2;
-- random, one for each transaction
ALTER TABLE sekisho.changes ADD COLUMN mark bigint NOT NULL
    DEFAULT ((random() - 0.5) * 18446744073709549568)::bigint;
";

/// Texts compare by their bytes, whatever the database's own order is. A chain
/// without its leaf is stored once in `issuers`; there are few, so they are
/// kept for good. Partial indexes hold only the rows that they find.
const TABLES: &str = r#"
CREATE SCHEMA IF NOT EXISTS sekisho;

CREATE TABLE sekisho.meta (
    one boolean PRIMARY KEY CHECK (one),
    version integer NOT NULL,
    catalog bytea NOT NULL,
    log bytea NOT NULL,
    -- the number of the last change; its row is locked by whoever writes
    number bigint NOT NULL,
    -- changes up to this number are no longer kept
    forgotten bigint NOT NULL
);

-- the last fencing token
CREATE TABLE sekisho.fence (
    one boolean PRIMARY KEY CHECK (one),
    token bigint NOT NULL
);
INSERT INTO sekisho.fence VALUES (true, 0);

CREATE TABLE sekisho.issuers (
    id bigint PRIMARY KEY GENERATED ALWAYS AS IDENTITY,
    digest bytea NOT NULL UNIQUE,
    chain bytea NOT NULL
);

CREATE TABLE sekisho.credentials (
    id bigint PRIMARY KEY,
    version bigint NOT NULL,
    key_type text NOT NULL,
    leaf bytea NOT NULL,
    issuer bigint,
    key_id bigint NOT NULL,
    nonce bytea NOT NULL,
    key bytea NOT NULL,
    not_before bigint NOT NULL,
    not_after bigint NOT NULL,
    renew_at bigint
);
CREATE INDEX due ON sekisho.credentials (renew_at, id) WHERE renew_at IS NOT NULL;

CREATE TABLE sekisho.hosts (
    pattern text COLLATE "C" PRIMARY KEY,
    -- what stands behind the first dot of an exact name
    parent text COLLATE "C",
    tenant text NOT NULL,
    site_format bigint,
    site text,
    -- the least version; with a client CA, 'client-ca' or 'optional-client-ca', a line
    -- break and its PEM follow
    tls text NOT NULL,
    disabled boolean NOT NULL,
    ecdsa bigint,
    ed25519 bigint,
    rsa bigint,
    version bigint NOT NULL
);
CREATE INDEX hosts_below ON sekisho.hosts (parent) WHERE parent IS NOT NULL;
CREATE INDEX hosts_by_ecdsa ON sekisho.hosts (ecdsa, pattern) WHERE ecdsa IS NOT NULL;
CREATE INDEX hosts_by_ed25519 ON sekisho.hosts (ed25519, pattern) WHERE ed25519 IS NOT NULL;
CREATE INDEX hosts_by_rsa ON sekisho.hosts (rsa, pattern) WHERE rsa IS NOT NULL;

CREATE TABLE sekisho.documents (
    kind text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    key_id bigint NOT NULL,
    nonce bytea NOT NULL,
    bytes bytea NOT NULL,
    expires bigint,
    version bigint NOT NULL,
    PRIMARY KEY (kind, key)
);
CREATE INDEX documents_expiring ON sekisho.documents (expires) WHERE expires IS NOT NULL;

-- Of servers before leases were documents; goes with the next version of the schema.
CREATE TABLE sekisho.leases (
    name text COLLATE "C" PRIMARY KEY,
    holder text NOT NULL,
    token bigint NOT NULL,
    expires_ms bigint NOT NULL
);

CREATE TABLE sekisho.changes (
    number bigint PRIMARY KEY,
    -- 'host', 'credential' or 'document'
    subject text NOT NULL,
    -- a document's kind, else empty
    kind text NOT NULL,
    -- a pattern, an id or a document's key
    key text NOT NULL,
    removed boolean NOT NULL
);
"#;
