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
pub use ring::Ring;
pub use schedule::PERIOD;

/// Ticketer of a host, with which rustls seals and opens tickets.
///
/// rustls compares the server name of a ticket. The rest of a session's binding
/// is authenticated here as additional data.
#[derive(Debug)]
pub(crate) struct Tickets {
    ring: Arc<Ring>,
    binding: [u8; 32],
}

impl Tickets {
    /// Makes the ticketer of a host, as the default of the address `local` if there is one.
    pub(crate) fn new(ring: &Arc<Ring>, record: &HostRecord, local: Option<SocketAddr>) -> Self {
        Self {
            ring: Arc::clone(ring),
            binding: binding(record, local),
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
        if plain.len() > MAX_PLAIN {
            return None;
        }
        self.ring.seal(&self.binding, plain)
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        self.ring.open(&self.binding, cipher)
    }
}

/// Returns the binding of a ticket besides its server name: a hash of the record's pattern,
/// tenant, least TLS version and client CA. Without a server name, the address is
/// included. A session of a host whose client certificates are optional may have none, and
/// opens nothing where one is required.
fn binding(record: &HostRecord, local: Option<SocketAddr>) -> [u8; 32] {
    let mut context = Context::new(&SHA256);
    let local = local.map_or_else(String::new, |local| local.to_string());
    let pattern = record.pattern.to_string();
    let (tenant, min) = (record.tenant.as_str(), record.tls.min.as_str());
    let client_ca = record.tls.client_ca.as_ref();
    let client_ca = client_ca.map_or(&[][..], |ca| ca.hash());
    let texts = [&pattern, tenant, min].map(str::as_bytes);
    // No part of other hosts' bindings: tickets of earlier versions stay good.
    let optional = record.tls.client_optional.then_some(&b"optional"[..]);
    let others = [client_ca, local.as_bytes()].into_iter().chain(optional);
    for part in texts.into_iter().chain(others) {
        // Length prefixes keep different lists of parts from hashing the
        // same bytes.
        context.update(&(part.len() as u64).to_be_bytes());
        context.update(part);
    }
    let digest = context.finish();
    digest.as_ref().try_into().expect("SHA-256 has 32 bytes")
}

/// Bytes of a session that is resumed. Only a client's chain is as long. The client
/// sends the ticket in its next ClientHello, which has at most
/// [`HELLO_LIMIT`](crate::tls::hello::HELLO_LIMIT) bytes. Without a ticket, each of its
/// handshakes is a full one.
const MAX_PLAIN: usize = 8 * 1024;

#[cfg(test)]
mod tests {
    use sekisho_certs::{ClientCa, HostPattern, Tenant, TlsVersion};
    use sekisho_testkit::TestCa;

    use super::*;

    #[test]
    fn a_ticket_opens_only_where_it_was_made() {
        let ring = Arc::new(Ring::random());
        let (one, other) = ("192.0.2.1:443", "192.0.2.2:443");
        let (tls12, tls13) = (TlsVersion::Tls12, TlsVersion::Tls13);
        let cas = [TestCa::new(), TestCa::new()];
        let [ca, new_ca] = cas.map(|ca| ClientCa::check(ca.root_pem().as_bytes()).unwrap());
        let bindings = [
            ("x.example", "a", tls12, None, None),
            ("x.example", "b", tls12, None, None),
            ("x.example", "a", tls13, None, None),
            ("x.example", "a", tls12, None, Some(one)),
            ("x.example", "a", tls12, None, Some(other)),
            ("x.example", "a1.2", tls12, None, None),
            ("*.example", "a", tls12, None, None),
            ("x.example", "a", tls12, Some((&ca, false)), None),
            ("x.example", "a", tls12, Some((&ca, true)), None),
            ("x.example", "a", tls12, Some((&new_ca, false)), None),
            ("x.example", "a", tls13, Some((&ca, false)), None),
        ]
        .map(|(pattern, tenant, min, client_ca, local)| {
            let mut record = HostRecord::new(HostPattern::parse(pattern).unwrap());
            record.tenant = Tenant::parse(tenant).unwrap();
            record.tls.min = min;
            record.tls.client_ca = client_ca.map(|(ca, _)| Arc::new(ClientCa::clone(ca)));
            record.tls.client_optional = client_ca.is_some_and(|(_, is_optional)| is_optional);
            let local = local.map(|local: &str| local.parse().unwrap());
            Tickets::new(&ring, &record, local)
        });
        for (maker, tickets) in bindings.iter().enumerate() {
            let ticket = tickets.encrypt(b"session").unwrap();
            for (opener, tickets) in bindings.iter().enumerate() {
                let opened = tickets.decrypt(&ticket);
                assert_eq!(opened.is_some(), maker == opener, "{maker} {opener}");
            }
        }
    }
    #[test]
    fn a_session_that_fits_no_client_hello_gets_no_ticket() {
        let record = HostRecord::new(HostPattern::parse("x.example").unwrap());
        let tickets = Tickets::new(&Arc::new(Ring::random()), &record, None);
        let ticket = tickets.encrypt(&[0; MAX_PLAIN]).unwrap();
        assert!(ticket.len() < crate::tls::hello::HELLO_LIMIT / 2 + 100);
        assert!(tickets.encrypt(&[0; MAX_PLAIN + 1]).is_none());
    }
}
