//! Putting another sealing of a secret in the place of one.

use tokio::try_join;
use tokio_postgres::types::Type;

use super::super::connection::{Connection, Params, Sql};
use super::super::fault::Step;
use super::super::rows::signed;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::store::{Reseal, SecretOf};

/// Replaces the sealed bytes of what is still as it was read. One more round
/// trip, for those who seal again only.
pub(super) async fn reseal(on: &Connection, reseals: &[Reseal]) -> Step<()> {
    if reseals.is_empty() {
        return Ok(());
    }
    let (mut ids, mut keys) = (Vec::new(), Columns::default());
    let (mut kinds, mut names, mut contents) = (Vec::new(), Vec::new(), Columns::default());
    for one in reseals {
        match &one.of {
            SecretOf::Credential(id) => {
                ids.push(signed(id.as_u64()));
                keys.push(one);
            }
            SecretOf::Document(id) => {
                kinds.push(id.kind.as_str());
                names.push(&*id.key);
                contents.push(one);
            }
        }
    }
    let (Columns { versions, old, new }, of) = (&keys, &ids);
    let credentials: Params<'_> = &[
        of,
        versions,
        &old.ids,
        &old.nonces,
        &old.bytes,
        &new.ids,
        &new.nonces,
        &new.bytes,
    ];
    let Columns { versions, old, new } = &contents;
    let documents: Params<'_> = &[
        &kinds,
        &names,
        versions,
        &old.ids,
        &old.nonces,
        &old.bytes,
        &new.ids,
        &new.nonces,
        &new.bytes,
    ];
    try_join!(
        biased;
        on.query(&CREDENTIALS, credentials),
        on.query(&DOCUMENTS, documents),
    )?;
    Ok(())
}

/// What is compared and what is written, as arrays.
#[derive(Default)]
struct Columns<'a> {
    versions: Vec<i64>,
    old: Sealings<'a>,
    new: Sealings<'a>,
}

impl<'a> Columns<'a> {
    fn push(&mut self, one: &'a Reseal) {
        self.versions.push(signed(one.version));
        self.old.push(&one.from);
        self.new.push(&one.to);
    }
}

#[derive(Default)]
struct Sealings<'a> {
    ids: Vec<i64>,
    nonces: Vec<&'a [u8]>,
    bytes: Vec<&'a [u8]>,
}

impl<'a> Sealings<'a> {
    fn push(&mut self, sealed: &'a SealedBytes) {
        self.ids.push(i64::from(sealed.key_id));
        self.nonces.push(&sealed.nonce);
        self.bytes.push(&sealed.bytes);
    }
}

static CREDENTIALS: Sql = Sql {
    text: "
UPDATE sekisho.credentials c SET key_id = p.key_id, nonce = p.nonce, key = p.key
FROM unnest($1::bigint[], $2::bigint[], $3::bigint[], $4::bytea[], $5::bytea[],
    $6::bigint[], $7::bytea[], $8::bytea[])
    AS p (id, version, old_id, old_nonce, old_key, key_id, nonce, key)
WHERE c.id = p.id AND c.version = p.version AND c.key_id = p.old_id
    AND c.nonce = p.old_nonce AND c.key = p.old_key",
    types: &[
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
};

static DOCUMENTS: Sql = Sql {
    text: "
UPDATE sekisho.documents d SET key_id = p.key_id, nonce = p.nonce, bytes = p.bytes
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bytea[], $6::bytea[],
    $7::bigint[], $8::bytea[], $9::bytea[])
    AS p (kind, name, version, old_id, old_nonce, old_bytes, key_id, nonce, bytes)
WHERE d.kind = p.kind AND d.key = p.name AND d.version = p.version AND d.key_id = p.old_id
    AND d.nonce = p.old_nonce AND d.bytes = p.old_bytes",
    types: &[
        Type::TEXT_ARRAY,
        Type::TEXT_ARRAY,
        Type::INT8_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
        Type::INT8_ARRAY,
        Type::BYTEA_ARRAY,
        Type::BYTEA_ARRAY,
    ],
};

pub(super) static RESEALING: [&Sql; 2] = [&CREDENTIALS, &DOCUMENTS];
