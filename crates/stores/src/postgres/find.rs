//! The one read of a handshake.

use tokio_postgres::types::Type;

use super::connection::Connection;
use super::fault::Step;
use super::log::{self, READ_AT_COLUMNS, read_at_columns};
use super::rows::get;
use crate::catalog_row::{self, HOST_COLUMNS, credential_columns, host_columns};
use sekisho_certs::credential::{SealedBytes, StoredCredential};
use sekisho_certs::host::HostName;
use sekisho_certs::store::{Answer, Found, precondition};

/// Finds the exact record or the wildcard's, with what it refers to, by one
/// statement: one round trip, and one state.
pub(super) async fn find(connection: &Connection, name: &HostName) -> Step<Answer<SealedBytes>> {
    let rows = connection.find(name.as_str(), name.parent()).await?;
    let first = rows.first().ok_or_else(log::no_row)?;
    let mut answer = Answer::absent();
    answer.read_at = Some(log::read_at(connection, first)?);
    if get::<Option<&str>>(first, HOST)?.is_none() {
        return Ok(answer);
    }
    let pattern = catalog_row::pattern(first, HOST + HOST_COLUMNS)?;
    let record = catalog_row::host(first, HOST, pattern)?;
    precondition::readable(&record)?;
    let mut credentials = Vec::with_capacity(1);
    for row in &rows {
        if get::<Option<i64>>(row, CREDENTIAL)?.is_some() {
            credentials.push(catalog_row::listed_credential(row, CREDENTIAL)?);
        }
    }
    for (key_type, id) in record.references.iter() {
        let fits = |one: &StoredCredential<SealedBytes>| one.id == id && one.key_type == key_type;
        if !credentials.iter().any(fits) {
            return Err(precondition::missing(&record, key_type).into());
        }
    }
    answer.found = Some(Box::new(Found {
        shadowed: get(first, SHADOWED)?,
        record,
        credentials,
        fresh_for: None,
    }));
    Ok(answer)
}

/// Where columns begin.
const HOST: usize = READ_AT_COLUMNS;
/// After the host and its pattern.
const SHADOWED: usize = HOST + HOST_COLUMNS + 1;
const CREDENTIAL: usize = SHADOWED + 1;

/// The inner select chooses one record before anything is joined to it: at
/// most two descents, since both names are known. There is a row for each
/// credential, one for a host without, and one without a host if none is there.
pub(super) const FIND: &str = concat!(
    "SELECT ",
    read_at_columns!(),
    ", ",
    host_columns!(),
    ", h.pattern,
          h.pattern <> $1 AND EXISTS (SELECT 1 FROM sekisho.hosts b WHERE b.parent = $2), ",
    credential_columns!(),
    " FROM (VALUES (true)) one
          LEFT JOIN (SELECT * FROM sekisho.hosts WHERE pattern IN ($1, '*.' || $2)
                ORDER BY pattern = $1 DESC LIMIT 1) h ON true
          LEFT JOIN sekisho.credentials c ON c.id = ANY (ARRAY[h.ecdsa, h.ed25519, h.rsa])
          LEFT JOIN sekisho.issuers i ON i.id = c.issuer"
);

/// The types of its parameters.
pub(super) const TYPES: &[Type] = &[Type::TEXT, Type::TEXT];
