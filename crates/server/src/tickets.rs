//! Session tickets (RFC 5077, RFC 8446 section 4.6.1). Every server with the
//! same keys can open them, but only for the host that they were issued for.

mod document;
mod file;
mod keep;
mod ring;
mod schedule;

use std::net::SocketAddr;
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};
use rustls::server::ProducesTickets;
use sekisho_certs::HostRecord;

pub use document::KIND as DOCUMENT_KIND;
pub use keep::{Keeper, Source};
pub use ring::{Key, Ring};
pub use schedule::PERIOD;

/// Ticketer of a host, with which rustls seals and opens tickets.
///
/// rustls compares the server name of a ticket. The rest of a session's binding
/// is authenticated here as additional data.
#[derive(Debug)]
pub(crate) struct Tickets {
    ring: Arc<Ring>,
    binding: Binding,
}

impl Tickets {
    pub(crate) fn new(ring: &Arc<Ring>, binding: Binding) -> Self {
        Self {
            ring: Arc::clone(ring),
            binding,
        }
    }
}

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        true
    }

    fn lifetime(&self) -> u32 {
        u32::try_from(PERIOD).expect("a period is some hours")
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.ring.seal(&self.binding.0, plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.ring.open(&self.binding.0, cipher)
    }
}

/// Binding of a ticket besides its server name: a hash of the record's pattern,
/// tenant, TLS policy and client CA (none yet). Without a server name, the
/// address is included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding([u8; 32]);

impl Binding {
    pub(crate) fn new(record: &HostRecord, local: Option<SocketAddr>) -> Self {
        let mut context = Context::new(&SHA256);
        let local = local.map_or_else(String::new, |local| local.to_string());
        let pattern = record.pattern.to_string();
        let (tenant, policy) = (record.tenant.as_str(), record.tls.as_str());
        for part in [&pattern, tenant, policy, NO_CLIENT_CA, &local] {
            // Length prefixes keep different lists of parts from hashing the
            // same bytes.
            context.update(&(part.len() as u64).to_be_bytes());
            context.update(part.as_bytes());
        }
        let digest = context.finish();
        Self(digest.as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

const NO_CLIENT_CA: &str = "";

#[cfg(test)]
mod tests {
    use sekisho_certs::{HostPattern, Tenant, TlsPolicy};

    use super::*;

    #[test]
    fn a_ticket_opens_only_where_it_was_made() {
        let ring = Arc::new(Ring::random());
        let (one, other) = ("192.0.2.1:443", "192.0.2.2:443");
        let bindings = [
            ("x.example", "a", TlsPolicy::Tls12, None),
            ("x.example", "b", TlsPolicy::Tls12, None),
            ("x.example", "a", TlsPolicy::Tls13, None),
            ("x.example", "a", TlsPolicy::Tls12, Some(one)),
            ("x.example", "a", TlsPolicy::Tls12, Some(other)),
            ("x.example", "a1.2", TlsPolicy::Tls12, None),
            ("*.example", "a", TlsPolicy::Tls12, None),
        ]
        .map(|(pattern, tenant, policy, local)| {
            let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
            record.tenant = Tenant::parse(tenant).unwrap();
            record.tls = policy;
            let local = local.map(|local: &str| local.parse().unwrap());
            Tickets::new(&ring, Binding::new(&record, local))
        });
        for (maker, tickets) in bindings.iter().enumerate() {
            let ticket = tickets.encrypt(b"session").unwrap();
            for (opener, tickets) in bindings.iter().enumerate() {
                let opened = tickets.decrypt(&ticket);
                assert_eq!(opened.is_some(), maker == opener, "{maker} {opener}");
            }
        }
    }
}
