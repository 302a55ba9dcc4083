//! Indexes that lists read. A new store has all of them. No start of a server builds one in
//! a store of an older program, since that takes seconds of a writer's lock.

use sekisho_certs::store::StoreError;

/// Indexes by name, with the table, columns and rows that each holds. A statement names the
/// condition of the rows as well, or neither database takes the index.
///
/// They are built in this order: where `hosts_by_name` is, `hosts_unnamed` is too.
pub(crate) const INDEXES: [(&str, &str); 9] = [
    ("hosts_by_tenant", "hosts (tenant, pattern)"),
    ("hosts_unnamed", "hosts (pattern) WHERE reversed IS NULL"),
    (
        "hosts_by_name",
        "hosts (reversed) WHERE reversed IS NOT NULL",
    ),
    (
        "hosts_without_certificate",
        "hosts (pattern) WHERE ecdsa IS NULL AND ed25519 IS NULL AND rsa IS NULL",
    ),
    (
        "hosts_by_origin",
        "hosts (origin, pattern) WHERE origin IS NOT NULL",
    ),
    (
        "hosts_suspended",
        "hosts (pattern) WHERE suspended IS NOT NULL",
    ),
    ("credentials_by_end", "credentials (not_after, id)"),
    (
        "credentials_by_origin",
        "credentials (origin, id) WHERE origin IS NOT NULL",
    ),
    (
        "lineages_without_certificate",
        "lineages (name) WHERE credential IS NULL",
    ),
];

/// Makes the refusal of a list that lacks its index.
pub(crate) fn lacking(index: &str) -> StoreError {
    let text = format!(
        "this list needs the index {index}; 'sekisho store upgrade' builds it while servers serve"
    );
    StoreError::Refused(text.into())
}
