//! Fields that tell an upstream who the client is: `X-Forwarded-*` and `Forwarded`.

use std::net::IpAddr;

use bytes::Bytes;
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

use crate::connection::client::X_FORWARDED_FOR;
use crate::connection::request::RequestContext;
use crate::site::UpstreamOptions;
use crate::upstream::request::fields;

/// Fields of a trusted proxy before us, which ours continue.
#[derive(Default)]
pub(super) struct Forwarded {
    addresses: Option<HeaderValue>,
    elements: Option<HeaderValue>,
    proto: Option<HeaderValue>,
    host: Option<HeaderValue>,
}

impl Forwarded {
    /// Takes the fields if the peer is trusted.
    pub(super) fn of(fields: &HeaderMap, context: &RequestContext<'_>) -> Self {
        if !context.connection.is_trusted {
            return Self::default();
        }
        Self {
            addresses: fields::joined(fields, &X_FORWARDED_FOR, b", "),
            elements: fields::joined(fields, &FORWARDED, b", "),
            proto: fields.get(X_FORWARDED_PROTO).cloned(),
            host: fields.get(X_FORWARDED_HOST).cloned(),
        }
    }

    pub(super) fn set(
        self,
        fields: &mut HeaderMap,
        host: &HeaderValue,
        options: &UpstreamOptions,
        context: &RequestContext<'_>,
    ) {
        let peer = context.connection.peer.ip().to_canonical();
        if options.forwarded {
            let element = element(peer, host, context.scheme());
            fields.insert(FORWARDED, behind(self.elements, element.as_bytes()));
        }
        fields.insert(X_FORWARDED_FOR, behind(self.addresses, &text(peer)));
        let proto = || HeaderValue::from_static(context.scheme());
        fields.insert(X_FORWARDED_PROTO, self.proto.unwrap_or_else(proto));
        fields.insert(X_FORWARDED_HOST, self.host.unwrap_or_else(|| host.clone()));
    }
}

/// Appends an element of ours to a list.
fn behind(list: Option<HeaderValue>, element: &[u8]) -> HeaderValue {
    let longer = list.and_then(|list| {
        let list = [list.as_bytes(), b", ", element].concat();
        HeaderValue::from_maybe_shared(Bytes::from(list)).ok()
    });
    longer
        .or_else(|| HeaderValue::from_bytes(element).ok())
        .unwrap_or(UNKNOWN)
}

/// Returns the element of `Forwarded` that stands for this server (RFC 7239).
fn element(peer: IpAddr, host: &HeaderValue, scheme: &str) -> String {
    let host = String::from_utf8_lossy(host.as_bytes());
    match peer {
        IpAddr::V4(peer) => format!("for={peer};host=\"{host}\";proto={scheme}"),
        IpAddr::V6(peer) => format!("for=\"[{peer}]\";host=\"{host}\";proto={scheme}"),
    }
}

/// Returns the text of an IP address. Formatting one of IPv4 would cost more than all other
/// fields.
fn text(address: IpAddr) -> Vec<u8> {
    let IpAddr::V4(address) = address else {
        return address.to_string().into_bytes();
    };
    let mut text = Vec::with_capacity(15);
    for (index, octet) in address.octets().into_iter().enumerate() {
        if index > 0 {
            text.push(b'.');
        }
        if octet >= 100 {
            text.push(b'0' + octet / 100);
        }
        if octet >= 10 {
            text.push(b'0' + octet / 10 % 10);
        }
        text.push(b'0' + octet % 10);
    }
    text
}

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const UNKNOWN: HeaderValue = HeaderValue::from_static("unknown");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_their_usual_text() {
        for address in [
            "0.0.0.0",
            "1.20.99.100",
            "109.10.200.255",
            "255.255.255.255",
            "2001:db8::1",
            "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff",
        ] {
            assert_eq!(text(address.parse().unwrap()), address.as_bytes());
        }
    }
}
