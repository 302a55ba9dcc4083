//! Sealing secrets again, under another master key.

use futures_util::future::try_join_all;

use super::super::connection::Connection;
use super::super::fault::Step;
use super::super::lineages;
use super::super::params::Param;
use crate::catalog_row::signed;
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::store::{Reseal, SecretOf};

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
            on.query(CREDENTIAL, &params).await?;
        }
        SecretOf::Document(id) => {
            let (kind, key) = (id.kind.as_str(), &*id.key);
            params.extend([&kind as &dyn Param, &key]);
            on.query(DOCUMENT, &params).await?;
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

const CREDENTIAL: &str = "
UPDATE sekisho.credentials SET key_id = $5, nonce = $6, key = $7
WHERE version = $1 AND key_id = $2 AND nonce = $3 AND key = $4 AND id = $8";

const DOCUMENT: &str = "
UPDATE sekisho.documents SET key_id = $5, nonce = $6, bytes = $7
WHERE version = $1 AND key_id = $2 AND nonce = $3 AND bytes = $4 AND kind = $8 AND key = $9";
