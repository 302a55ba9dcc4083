//! The one read of a handshake.

use std::sync::LazyLock;

use rusqlite::{Connection, Row};

use super::log::{self, READ_AT};
use super::rows::{
    self, CREDENTIAL_COLUMNS, Fault, HOST_COLUMNS, Step, credential_columns, host_columns,
};
use sekisho_certs::credential::SealedBytes;
use sekisho_certs::host::{HostName, HostPattern};
use sekisho_certs::store::{Answer, Found, precondition};

/// Finds the exact record or the wildcard's, with what it refers to, and the
/// state that was read. One statement finds it, with no descent more than needed:
/// its second half runs only if the first gave nothing.
pub(super) fn find(
    connection: &Connection,
    generation: u64,
    name: &HostName,
) -> Step<Answer<SealedBytes>> {
    // As long as this statement is open, the next one reads the same state: a
    // transaction of its own would take two statements more.
    let mut read_at = connection.prepare_cached(READ_AT)?;
    let mut read_at = read_at.query(())?;
    let read_at = log::read_at(read_at.next()?, generation)?;
    let mut statement = connection.prepare_cached(&FIND)?;
    let mut rows = statement.query((name.as_str(), name.parent()))?;
    // SQL promises no order between the halves: an exact row wins.
    let mut best = None;
    while let Some(row) = rows.next()? {
        let half = row.get(0)?;
        best = Some(found(row, name, half)?);
        if half == EXACT {
            break;
        }
    }
    Ok(Answer {
        read_at: Some(read_at),
        ..best.map_or_else(Answer::absent, Answer::found)
    })
}

fn found(row: &Row<'_>, name: &HostName, half: u32) -> Step<Found<SealedBytes>> {
    let pattern = match half {
        EXACT => HostPattern::from(name),
        _ => name
            .wildcard()
            .ok_or_else(|| Fault::Value(format!("a wildcard above {name}")))?,
    };
    let record = rows::host(row, 1, pattern)?;
    precondition::readable(&record)?;
    let mut credentials = Vec::with_capacity(1);
    for (key_type, id) in record.references.iter() {
        let first = 1 + HOST_COLUMNS + key_type as usize * CREDENTIAL_COLUMNS;
        let credential = rows::credential(row, first, id, key_type)?;
        credentials.push(credential.ok_or_else(|| precondition::missing(&record, key_type))?);
    }
    Ok(Found {
        record,
        credentials,
        shadowed: half == SHADOWED,
        fresh_for: None,
    })
}

/// The exact record's half.
const EXACT: u32 = 0;
/// The wildcard's half, with exact records below it.
const SHADOWED: u32 = 2;

/// The credentials stand in the order of [`KeyType::ALL`].
pub(super) static FIND: LazyLock<String> = LazyLock::new(|| {
    let exact = half("0", "?1");
    let below = "1 + EXISTS (SELECT 1 FROM hosts WHERE parent = ?2)";
    format!("{exact} UNION ALL {}", half(below, "'*.' || ?2"))
});

fn half(flag: &str, pattern: &str) -> String {
    let host = host_columns("h");
    let [e, d, r] = ["e", "d", "r"].map(|one| credential_columns(one, &format!("{one}i")));
    format!(
        "SELECT {flag}, {host}, {e}, {d}, {r} FROM hosts h
         LEFT JOIN credentials e ON e.id = h.ecdsa LEFT JOIN issuers ei ON ei.id = e.issuer
         LEFT JOIN credentials d ON d.id = h.ed25519 LEFT JOIN issuers di ON di.id = d.issuer
         LEFT JOIN credentials r ON r.id = h.rsa LEFT JOIN issuers ri ON ri.id = r.issuer
         WHERE h.pattern = {pattern}"
    )
}
