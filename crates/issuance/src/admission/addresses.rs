//! The condition `addresses`: the name leads here.

use std::net::IpAddr;

use hickory_proto::rr::{RData, RecordType};
use sekisho_certs::HostPattern;

use super::decision::No;
use sekisho_dns::Resolver;

/// Says yes if one of the name's A and AAAA records, also through CNAMEs, is an
/// expected address. A wildcard is resolved as it stands, which answers with the
/// zone's own wildcard records (RFC 4592).
pub(super) async fn check(
    resolver: &Resolver,
    expected: &[IpAddr],
    pattern: &HostPattern,
) -> Result<(), No> {
    let of = |kind| resolver.records(pattern.as_str(), kind);
    let (v4, v6) = tokio::join!(of(RecordType::A), of(RecordType::AAAA));
    let found: Vec<_> = [&v4, &v6].into_iter().flatten().flatten().collect();
    let found: Vec<_> = found.into_iter().filter_map(RData::ip_addr).collect();
    if found.iter().any(|address| expected.contains(address)) {
        return Ok(());
    }
    // Half an answer decides nothing: the other half may hold the address.
    v4.and(v6)?;
    let why = match found.as_slice() {
        [] => format!("{pattern} leads to no address"),
        [first, ..] => format!("{pattern} leads to {first}, none of `addresses`"),
    };
    Err(No::Refused(why.into()))
}
