//! The statements of a write: each takes any number of rows.

use std::collections::HashMap;

use aws_lc_rs::digest::{SHA256, digest};
use tokio::try_join;
use tokio_postgres::types::Type;

use super::super::connection::{Connection, Params, Sql};
use super::super::fault::Step;
use super::super::listen;
use super::super::read::now;
use super::super::rows::{self, signed};
use super::Kept;
use super::plan::Plan;
use sekisho_certs::credential::{CredentialId, KeyType};
use sekisho_certs::store::What;

/// Writes credentials, hosts and documents; gives the credentials that it
/// deleted since no host refers to them any more.
pub(super) async fn contents(on: &Connection, plan: &Plan) -> Step<Vec<CredentialId>> {
    let removed: Vec<_> = plan.hosts.iter().filter(|one| one.1.is_none()).collect();
    let removed: Vec<_> = removed.iter().map(|one| one.0.as_str()).collect();
    let gone: Vec<_> = plan
        .documents
        .iter()
        .filter(|one| one.1.is_none())
        .collect();
    let kinds: Vec<_> = gone.iter().map(|one| one.0.kind.as_str()).collect();
    let keys: Vec<_> = gone.iter().map(|one| &*one.0.key).collect();
    let dropped: Vec<_> = plan.dropped.iter().map(|id| signed(id.as_u64())).collect();
    let gone: Params<'_> = &[&kinds, &keys];
    let (removed, dropped): (Params<'_>, Params<'_>) = (&[&removed], &[&dropped]);
    // Sent together and done in this order.
    let ((), _, (), _, (), orphans) = try_join!(
        biased;
        credentials(on, plan),
        on.query(&REMOVE_HOSTS, removed),
        hosts(on, plan),
        on.query(&REMOVE_DOCUMENTS, gone),
        documents(on, plan),
        on.query(&DROP_ORPHANS, dropped),
    )?;
    let mut ids = Vec::with_capacity(orphans.len());
    for row in &orphans {
        ids.extend(rows::credential_id(row, 0)?);
    }
    ids.sort_unstable();
    Ok(ids)
}

/// Announces the changes, cuts the log and what has expired a bounded piece at
/// a time, stores the number, and commits.
pub(super) async fn changes(
    on: &Connection,
    plan: &Plan,
    kept: Kept,
    now: Option<i64>,
) -> Step<()> {
    let number = plan.number();
    if number == kept.before {
        return on.run("COMMIT").await;
    }
    let pace = PRUNE_AT_LEAST.max(2 * (number - kept.before));
    let floor = number.saturating_sub(kept.keep).min(kept.forgotten + pace);
    let floor = signed(floor.max(kept.forgotten));
    let changes = &plan.changes;
    let numbers: Vec<_> = changes.iter().map(|one| signed(one.number)).collect();
    let subjects: Vec<_> = changes.iter().map(|one| one.subject).collect();
    let kinds: Vec<_> = changes.iter().map(|one| one.kind.as_str()).collect();
    let keys: Vec<_> = changes.iter().map(|one| one.key.as_str()).collect();
    let removed: Vec<_> = changes
        .iter()
        .map(|one| one.what == What::Removed)
        .collect();
    let (number, most) = (signed(number), signed(PRUNE_AT_LEAST));
    let mark = mark();
    let entries: Params<'_> = &[&numbers, &subjects, &kinds, &keys, &removed, &mark];
    let (cut, prune): (Params<'_>, Params<'_>) = (&[&floor], &[&now, &most]);
    let count: Params<'_> = &[&number, &floor];
    try_join!(
        biased;
        on.query(&LOG, entries),
        on.query(&CUT_LOG, cut),
        on.query(&PRUNE_DOCUMENTS, prune),
        on.query(&COUNT, count),
        on.run(listen::NOTIFY_AND_COMMIT),
    )?;
    Ok(())
}

/// The random mark of a transaction's changes.
fn mark() -> i64 {
    let mut bytes = [0; 8];
    aws_lc_rs::rand::fill(&mut bytes).expect("the system gives random bytes");
    i64::from_be_bytes(bytes)
}

async fn credentials(on: &Connection, plan: &Plan) -> Step<()> {
    let puts: Vec<_> = plan.credentials.values().collect();
    let mut issuers = HashMap::new();
    let (mut of, mut key_ids, mut nonces, mut keys) = (vec![], vec![], vec![], vec![]);
    for put in &puts {
        let chain: Vec<u8> = put
            .chain
            .iter()
            .skip(1)
            .flat_map(|der| der.to_vec())
            .collect();
        of.push((!chain.is_empty()).then(|| {
            let digest = digest(&SHA256, &chain).as_ref().to_vec();
            issuers.insert(digest.clone(), chain);
            digest
        }));
        let key = &put.key;
        key_ids.push(i64::from(key.key_id));
        nonces.push(&key.nonce[..]);
        keys.push(&key.bytes[..]);
    }
    let (digests, chains): (Vec<_>, Vec<_>) = issuers.into_iter().unzip();
    let ids: Vec<_> = puts.iter().map(|one| signed(one.id.as_u64())).collect();
    let versions: Vec<_> = puts.iter().map(|one| signed(one.version)).collect();
    let types: Vec<_> = puts.iter().map(|one| one.key_type.as_str()).collect();
    let leaves: Vec<_> = puts.iter().map(|one| one.chain[0].as_ref()).collect();
    let begins: Vec<_> = puts.iter().map(|one| one.not_before).collect();
    let ends: Vec<_> = puts.iter().map(|one| one.not_after).collect();
    let renews: Vec<_> = puts.iter().map(|one| one.renew_at).collect();
    let issuers: Params<'_> = &[&digests, &chains];
    let puts: Params<'_> = &[
        &ids, &versions, &types, &leaves, &of, &key_ids, &nonces, &keys, &begins, &ends, &renews,
    ];
    try_join!(
        biased;
        on.query(&PUT_ISSUERS, issuers),
        on.query(&PUT_CREDENTIALS, puts),
    )?;
    Ok(())
}

async fn hosts(on: &Connection, plan: &Plan) -> Step<()> {
    let puts: Vec<_> = plan.hosts.values().flatten().collect();
    let patterns: Vec<_> = puts.iter().map(|one| one.pattern.as_str()).collect();
    let exact = |one: &&sekisho_certs::record::HostRecord| one.pattern.wildcard_parent().is_none();
    let parents: Vec<_> = puts
        .iter()
        .map(|one| exact(one).then(|| one.pattern.parent()).flatten())
        .collect();
    let tenants: Vec<_> = puts.iter().map(|one| one.tenant.as_str()).collect();
    let sites = puts.iter().map(|one| one.site.as_ref());
    let formats: Vec<_> = sites
        .clone()
        .map(|site| site.map(|site| i64::from(site.format)))
        .collect();
    let sites: Vec<_> = sites.map(|site| site.map(|site| &*site.json)).collect();
    let policies: Vec<_> = puts.iter().map(|one| one.tls.as_str()).collect();
    let disabled: Vec<_> = puts.iter().map(|one| one.disabled).collect();
    let versions: Vec<_> = puts.iter().map(|one| signed(one.version)).collect();
    let [ecdsa, ed25519, rsa] = KeyType::ALL.map(|key_type| {
        let id = |id: CredentialId| signed(id.as_u64());
        let ids = puts.iter().map(|one| one.references.of(key_type).map(id));
        ids.collect::<Vec<_>>()
    });
    on.query(
        &PUT_HOSTS,
        &[
            &patterns, &parents, &tenants, &formats, &sites, &policies, &disabled, &ecdsa,
            &ed25519, &rsa, &versions,
        ],
    )
    .await?;
    Ok(())
}

async fn documents(on: &Connection, plan: &Plan) -> Step<()> {
    let puts: Vec<_> = plan.documents.values().flatten().collect();
    let (mut key_ids, mut nonces, mut bytes) = (vec![], vec![], vec![]);
    for put in &puts {
        let sealed = &put.bytes;
        key_ids.push(i64::from(sealed.key_id));
        nonces.push(&sealed.nonce[..]);
        bytes.push(&sealed.bytes[..]);
    }
    let kinds: Vec<_> = puts.iter().map(|one| one.id.kind.as_str()).collect();
    let keys: Vec<_> = puts.iter().map(|one| &*one.id.key).collect();
    let expires: Vec<_> = puts.iter().map(|one| one.expires).collect();
    let versions: Vec<_> = puts.iter().map(|one| signed(one.version)).collect();
    on.query(
        &PUT_DOCUMENTS,
        &[
            &kinds, &keys, &key_ids, &nonces, &bytes, &expires, &versions,
        ],
    )
    .await?;
    Ok(())
}

static PUT_ISSUERS: Sql = Sql {
    text:
        "INSERT INTO sekisho.issuers (digest, chain) SELECT * FROM unnest($1::bytea[], $2::bytea[])
           ON CONFLICT (digest) DO NOTHING",
    types: &[Type::BYTEA_ARRAY, Type::BYTEA_ARRAY],
};

static PUT_CREDENTIALS: Sql = Sql {
    text: "
INSERT INTO sekisho.credentials (id, version, key_type, leaf, issuer, key_id, nonce, key,
    not_before, not_after, renew_at)
SELECT p.id, p.version, p.key_type, p.leaf, i.id, p.key_id, p.nonce, p.key,
    p.not_before, p.not_after, p.renew_at
FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bytea[], $5::bytea[], $6::bigint[],
    $7::bytea[], $8::bytea[], $9::bigint[], $10::bigint[], $11::bigint[])
    AS p (id, version, key_type, leaf, digest, key_id, nonce, key, not_before, not_after, renew_at)
LEFT JOIN sekisho.issuers i ON i.digest = p.digest
ON CONFLICT (id) DO UPDATE SET version = excluded.version, leaf = excluded.leaf,
    issuer = excluded.issuer, key_id = excluded.key_id, nonce = excluded.nonce,
    key = excluded.key, not_before = excluded.not_before, not_after = excluded.not_after,
    renew_at = excluded.renew_at",
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

static REMOVE_HOSTS: Sql = Sql {
    text: "DELETE FROM sekisho.hosts WHERE pattern = ANY ($1)",
    types: &[Type::TEXT_ARRAY],
};

static PUT_HOSTS: Sql = Sql {
    text: "
INSERT INTO sekisho.hosts (pattern, parent, tenant, site_format, site, tls, disabled,
    ecdsa, ed25519, rsa, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[], $5::text[], $6::text[],
    $7::boolean[], $8::bigint[], $9::bigint[], $10::bigint[], $11::bigint[])
ON CONFLICT (pattern) DO UPDATE SET tenant = excluded.tenant,
    site_format = excluded.site_format, site = excluded.site, tls = excluded.tls,
    disabled = excluded.disabled, ecdsa = excluded.ecdsa, ed25519 = excluded.ed25519,
    rsa = excluded.rsa, version = excluded.version",
    types: &[
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

static REMOVE_DOCUMENTS: Sql = Sql {
    text: "DELETE FROM sekisho.documents d
           USING unnest($1::text[], $2::text[]) AS gone (kind, key)
           WHERE d.kind = gone.kind AND d.key = gone.key",
    types: &[Type::TEXT_ARRAY, Type::TEXT_ARRAY],
};

static PUT_DOCUMENTS: Sql = Sql {
    text: "
INSERT INTO sekisho.documents (kind, key, key_id, nonce, bytes, expires, version)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bytea[], $5::bytea[],
    $6::bigint[], $7::bigint[])
ON CONFLICT (kind, key) DO UPDATE SET key_id = excluded.key_id, nonce = excluded.nonce,
    bytes = excluded.bytes, expires = excluded.expires, version = excluded.version",
    types: &[
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
    ],
};

/// What the whole batch left without a reference.
static DROP_ORPHANS: Sql = Sql {
    text: "DELETE FROM sekisho.credentials c WHERE c.id = ANY ($1)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.ecdsa = c.id)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.ed25519 = c.id)
           AND NOT EXISTS (SELECT 1 FROM sekisho.hosts h WHERE h.rsa = c.id)
           RETURNING c.id",
    types: &[Type::INT8_ARRAY],
};

static LOG: Sql = Sql {
    text: "INSERT INTO sekisho.changes (number, subject, kind, key, removed, mark)
           SELECT c.*, $6
           FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::boolean[]) AS c",
    types: &[
        Type::INT8_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::BOOL_ARRAY,
        Type::INT8,
    ],
};

static CUT_LOG: Sql = Sql {
    text: "DELETE FROM sekisho.changes WHERE number < $1",
    types: &[Type::INT8],
};

/// Nobody sees an expired document, so nobody is told.
static PRUNE_DOCUMENTS: Sql = Sql {
    text: concat!(
        "DELETE FROM sekisho.documents WHERE (kind, key) IN
         (SELECT kind, key FROM sekisho.documents WHERE expires <= ",
        now!("$1"),
        " ORDER BY expires LIMIT $2)"
    ),
    types: &[Type::INT8, Type::INT8],
};

static COUNT: Sql = Sql {
    text: "UPDATE sekisho.meta SET number = $1, forgotten = $2",
    types: &[Type::INT8, Type::INT8],
};

pub(super) static WRITING: [&Sql; 11] = [
    &PUT_ISSUERS,
    &PUT_CREDENTIALS,
    &REMOVE_HOSTS,
    &PUT_HOSTS,
    &REMOVE_DOCUMENTS,
    &PUT_DOCUMENTS,
    &DROP_ORPHANS,
    &LOG,
    &CUT_LOG,
    &PRUNE_DOCUMENTS,
    &COUNT,
];

/// What a write cuts off at least: the log shrinks to its bound, yet no
/// single write pays for all that was due.
const PRUNE_AT_LEAST: u64 = 100;
