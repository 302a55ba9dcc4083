//! The statements of a write: each takes any number of rows.

use std::collections::BTreeMap;

use futures_util::future::{try_join, try_join_all, try_join3, try_join5};
use tokio_postgres::Row;

use super::super::connection::Connection;
use super::super::fault::Step;
use super::super::lineages;
use super::super::params::{Param, column};
use super::super::read::now;
use super::There;
use crate::catalog_row::{self, signed, suspension_text};
use crate::log_row;
use crate::plan::{self, MIN_PRUNED, Plan};
use sekisho_certs::credential::{CredentialId, KeyType, SealedBytes};
use sekisho_certs::random;
use sekisho_certs::record::HostRecord;
use sekisho_certs::store::{Document, Reseal, SecretOf, What, reversed};

/// Writes credentials, hosts, documents and lineages; returns the credentials that it
/// deleted since no host refers to them any more. None if a row that is not `there` was
/// made by another writer meanwhile.
pub(super) async fn contents(
    on: &Connection,
    plan: &Plan,
    there: &There,
) -> Step<Option<Vec<CredentialId>>> {
    let dropped = column(&plan.dropped, |id| signed(id.as_u64()));
    let orphan = |row: &Row| catalog_row::number(row, 0);
    // Sent together and done in this order.
    let ((), (), documents, lineages, orphans) = try_join5(
        credentials(on, plan),
        hosts(on, plan),
        documents(on, plan, there),
        lineages::put(on, plan, there),
        on.list_if(!dropped.is_empty(), DROP_ORPHANS, &[&dropped], orphan),
    )
    .await?;
    if !documents || !lineages {
        return Ok(None);
    }
    let mut orphans = column(orphans, CredentialId::from_u64);
    orphans.sort_unstable();
    Ok(Some(orphans))
}

/// Announces the changes, cuts the log and what has expired a bounded piece at
/// a time, stores the number, and commits.
pub(super) async fn changes(on: &Connection, plan: &Plan, keep: u64, now: Option<i64>) -> Step<()> {
    let (number, floor) = (signed(plan.stored.number), signed(plan.floor(keep)));
    let forgotten = signed(plan.stored.forgotten);
    let mark = i64::from_be_bytes(random());
    let all = &plan.changes;
    let rows = column(all, |one| log_row::columns(&one.subject));
    try_join5(
        on.query(
            LOG,
            &[
                &column(all, |one| signed(one.number)),
                &column(&rows, |row| row.0),
                &column(&rows, |row| row.1),
                &column(&rows, |row| &*row.2),
                &column(all, |one| one.what == What::Removed),
                &mark,
            ],
        ),
        on.query(CUT_LOG, &[&forgotten, &floor]),
        on.query(PRUNE_DOCUMENTS, &[&now, &signed(MIN_PRUNED)]),
        on.query(COUNT, &[&number, &floor]),
        on.run(NOTIFY_AND_COMMIT),
    )
    .await?;
    Ok(())
}

async fn credentials(on: &Connection, plan: &Plan) -> Step<()> {
    let puts: Vec<_> = plan.credentials.values().collect();
    if puts.is_empty() {
        return Ok(());
    }
    let issuers = column(&puts, |one| plan::issuers(&one.chain));
    let digests = column(&issuers, |one| one.as_ref().map(|one| one.0.as_ref()));
    // Most credentials of a batch have the same few issuers.
    let distinct: BTreeMap<&[u8], &[u8]> = issuers
        .iter()
        .flatten()
        .map(|(digest, chain)| (digest.as_ref(), &chain[..]))
        .collect();
    let (digest, chain): (Vec<_>, Vec<_>) = distinct.into_iter().unzip();
    let keys = column(&puts, |one| &one.key);
    try_join(
        on.query(PUT_ISSUERS, &[&digest, &chain]),
        on.query(
            PUT_CREDENTIALS,
            &[
                &column(&puts, |one| signed(one.id.as_u64())),
                &column(&puts, |one| signed(one.version)),
                &column(&puts, |one| one.key_type.as_str()),
                &column(&puts, |one| one.chain[0].as_ref()),
                &digests,
                &column(&keys, |key| i64::from(key.key_id)),
                &column(&keys, |key| &key.nonce[..]),
                &column(&keys, |key| &key.bytes[..]),
                &column(&puts, |one| one.not_before),
                &column(&puts, |one| one.not_after),
                &column(&puts, |one| one.origin.as_ref().map(|it| &*it.source)),
                &column(&puts, |it| it.origin.as_ref().map(|by| signed(by.version))),
            ],
        ),
    )
    .await?;
    Ok(())
}

async fn hosts(on: &Connection, plan: &Plan) -> Step<()> {
    let gone = plan.hosts.iter().filter(|one| one.1.is_none());
    let gone: Vec<_> = gone.map(|one| one.0.as_str()).collect();
    let puts: Vec<_> = plan.hosts.values().flatten().collect();
    let id = |one: &HostRecord, key_type| {
        let id = one.references.of(key_type);
        id.map(|id| signed(id.as_u64()))
    };
    let [ecdsa, ed25519, rsa] = KeyType::ALL.map(|key_type| column(&puts, |one| id(one, key_type)));
    let policies = column(&puts, |one| one.tls.to_text());
    let suspensions = column(&puts, |one| one.suspended.as_ref().map(suspension_text));
    try_join(
        on.query(REMOVE_HOSTS, &[&gone]),
        on.query(
            PUT_HOSTS,
            &[
                &column(&puts, |one| one.pattern.as_str()),
                &column(&puts, |one| plan::parent(&one.pattern)),
                &column(&puts, |one| one.tenant.as_str()),
                &column(&puts, |one| {
                    one.site.as_ref().map(|site| i64::from(site.format))
                }),
                &column(&puts, |one| one.site.as_ref().map(|site| &*site.json)),
                &column(&policies, |text| &**text),
                &column(&puts, |one| one.disabled),
                &ecdsa,
                &ed25519,
                &rsa,
                &column(&puts, |one| signed(one.version)),
                &column(&puts, |one| reversed(&one.pattern)),
                &column(&puts, |one| one.origin.as_ref().map(|it| &*it.source)),
                &column(&puts, |it| it.origin.as_ref().map(|by| signed(by.version))),
                &suspensions,
            ],
        ),
    )
    .await?;
    Ok(())
}

/// Tells whether all rows were written that were to be new.
async fn documents(on: &Connection, plan: &Plan, there: &There) -> Step<bool> {
    let gone = plan.documents.iter().filter(|one| one.1.is_none());
    let gone: Vec<_> = gone.map(|one| one.0).collect();
    let puts = plan.documents.values().flatten();
    let (old, new): (Vec<_>, Vec<_>) = puts.partition(|one| there.documents.contains(&one.id));
    let (kinds, keys) = (
        column(&gone, |id| id.kind.as_str()),
        column(&gone, |id| &*id.key),
    );
    let (_, _, made) = try_join3(
        on.list_if(!gone.is_empty(), REMOVE_DOCUMENTS, &[&kinds, &keys], |_| {
            Ok(())
        }),
        put_documents(on, &old, PUT_DOCUMENTS),
        put_documents(on, &new, NEW_DOCUMENTS),
    )
    .await?;
    Ok(made == new.len())
}

/// Returns how many rows the statement tells.
async fn put_documents(
    on: &Connection,
    puts: &[&Document<SealedBytes>],
    text: &str,
) -> Step<usize> {
    if puts.is_empty() {
        return Ok(0);
    }
    let sealed = column(puts, |one| &one.bytes);
    let rows = on
        .query(
            text,
            &[
                &column(puts, |one| one.id.kind.as_str()),
                &column(puts, |one| &*one.id.key),
                &column(&sealed, |one| i64::from(one.key_id)),
                &column(&sealed, |one| &one.nonce[..]),
                &column(&sealed, |one| &one.bytes[..]),
                &column(puts, |one| one.expires),
                &column(puts, |one| signed(one.version)),
            ],
        )
        .await?;
    Ok(rows.len())
}

/// Replaces the sealed bytes of secrets that are still as they were read, in
/// one more round trip.
pub(super) async fn reseal(on: &Connection, reseals: &[Reseal]) -> Step<()> {
    try_join_all(reseals.iter().map(|one| replace(on, one))).await?;
    Ok(())
}

async fn replace(on: &Connection, one: &Reseal) -> Step<()> {
    let (old, new, version) = (columns(&one.from), columns(&one.to), signed(one.version));
    let mut params: Vec<&dyn Param> = vec![&version, &old.0, &old.1, &old.2];
    params.extend([&new.0 as &dyn Param, &new.1, &new.2]);
    match &one.of {
        SecretOf::Credential(id) => {
            let id = signed(id.as_u64());
            params.push(&id);
            on.query(RESEAL_CREDENTIAL, &params).await?;
        }
        SecretOf::Document(id) => {
            let (kind, key) = (id.kind.as_str(), &*id.key);
            params.extend([&kind as &dyn Param, &key]);
            on.query(RESEAL_DOCUMENT, &params).await?;
        }
        SecretOf::Lineage(name) => {
            let name = name.as_str();
            params.push(&name);
            on.query(lineages::RESEAL, &params).await?;
        }
    }
    Ok(())
}

fn columns(sealed: &SealedBytes) -> (i64, &[u8], &[u8]) {
    (i64::from(sealed.key_id), &sealed.nonce, &sealed.bytes)
}

const PUT_ISSUERS: &str =
    "INSERT INTO sekisho.issuers (digest, chain) SELECT * FROM unnest($1::bytea[], $2::bytea[])
           ON CONFLICT (digest) DO NOTHING";

const PUT_CREDENTIALS: &str = "
INSERT INTO sekisho.credentials (id, version, key_type, leaf, issuer, key_id, nonce, key,
    not_before, not_after, origin, origin_version)
SELECT p.id, p.version, p.key_type, p.leaf, i.id, p.key_id, p.nonce, p.key,
    p.not_before, p.not_after, p.origin, p.origin_version
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[], $6::bigint[],
    $7::bytea[], $8::bytea[], $9::bigint[], $10::bigint[], $11::text[], $12::bigint[])
    AS p (id, version, key_type, leaf, digest, key_id, nonce, key, not_before, not_after,
        origin, origin_version)
LEFT JOIN sekisho.issuers i ON i.digest = p.digest
ON CONFLICT (id) DO UPDATE SET version = excluded.version, leaf = excluded.leaf,
    issuer = excluded.issuer, key_id = excluded.key_id, nonce = excluded.nonce,
    key = excluded.key, not_before = excluded.not_before, not_after = excluded.not_after,
    origin = excluded.origin, origin_version = excluded.origin_version";

const REMOVE_HOSTS: &str = "DELETE FROM sekisho.hosts WHERE pattern = ANY ($1)";

const PUT_HOSTS: &str = "
INSERT INTO sekisho.hosts (pattern, parent, tenant, site_format, site, tls, disabled,
    ecdsa, ed25519, rsa, version, reversed, origin, origin_version, suspended)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[],
    $7::boolean[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[], $12::text[],
    $13::text[], $14::bigint[], $15::text[])
ON CONFLICT (pattern) DO UPDATE SET tenant = excluded.tenant,
    site_format = excluded.site_format, site = excluded.site, tls = excluded.tls,
    disabled = excluded.disabled, ecdsa = excluded.ecdsa, ed25519 = excluded.ed25519,
    rsa = excluded.rsa, version = excluded.version, reversed = excluded.reversed,
    origin = excluded.origin, origin_version = excluded.origin_version,
    suspended = excluded.suspended";

const REMOVE_DOCUMENTS: &str = "DELETE FROM sekisho.documents d
           USING unnest($1::text[], $2::text[]) AS gone (kind, key)
           WHERE d.kind = gone.kind AND d.key = gone.key";

macro_rules! insert_documents {
    ($conflict:literal) => {
        concat!(
            "
INSERT INTO sekisho.documents (kind, key, key_id, nonce, bytes, expires, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bytea[],
    $6::bigint[], $7::bigint[])
ON CONFLICT (kind, key) ",
            $conflict
        )
    };
}

const PUT_DOCUMENTS: &str = insert_documents!(
    "DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce,
    bytes = excluded.bytes, expires = excluded.expires, version = excluded.version"
);

/// Tells a row for each that it has made.
const NEW_DOCUMENTS: &str = insert_documents!("DO NOTHING RETURNING true");

/// Deletes credentials that the whole batch left without a reference.
const DROP_ORPHANS: &str = "DELETE FROM sekisho.credentials c WHERE c.id = ANY ($1)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.ecdsa = c.id)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.ed25519 = c.id)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.rsa = c.id)
           RETURNING c.id";

const RESEAL_CREDENTIAL: &str = "
UPDATE sekisho.credentials SET key_id = $5, nonce = $6, key = $7
WHERE version = $1 AND key_id = $2 AND nonce = $3 AND key = $4 AND id = $8";

const RESEAL_DOCUMENT: &str = "
UPDATE sekisho.documents SET key_id = $5, nonce = $6, bytes = $7
WHERE version = $1 AND key_id = $2 AND nonce = $3 AND bytes = $4 AND kind = $8 AND key = $9";

const LOG: &str = "INSERT INTO sekisho.changes (number, subject, kind, key, removed, mark)
           SELECT c.*, $6
           FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[]) AS c";

/// Spares the change with the number `forgotten`: a page read behind it gives its
/// mark as `mark_before`. Begins where the cut before has ended: the index still holds
/// what was cut for as long as a snapshot is open.
pub(crate) const CUT_LOG: &str = "DELETE FROM sekisho.changes WHERE number >= $1 AND number < $2";

/// Deletes expired documents. Readers don't see them: no change is announced. One that a
/// writer has locked stays for now.
const PRUNE_DOCUMENTS: &str = concat!(
    "DELETE FROM sekisho.documents WHERE (kind, key) IN
         (SELECT kind, key FROM sekisho.documents WHERE expires <= ",
    now!("$1"),
    " ORDER BY expires LIMIT $2 FOR UPDATE SKIP LOCKED)"
);

const COUNT: &str = "UPDATE sekisho.meta SET number = $1, forgotten = $2";

/// Ends the transaction. `LISTEN` in `postgres/listen.rs` hears of it once it is
/// committed.
const NOTIFY_AND_COMMIT: &str = "NOTIFY sekisho; COMMIT";
