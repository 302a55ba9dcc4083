//! Fields that tell an upstream who the client is: `X-Forwarded-*` and `Forwarded`.

use std::fmt::Write as _;
use std::net::IpAddr;

use bytes::Bytes;
use http::header::{FORWARDED, HeaderMap, HeaderName, HeaderValue};

use crate::connection::client::X_FORWARDED_FOR;
use crate::connection::request::RequestContext;
use crate::site::UpstreamOptions;
use crate::upstream::fields;

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
            let element = element(peer, host);
            fields.insert(FORWARDED, behind(self.elements, &element));
        }
        let address = Text::of(peer);
        fields.insert(X_FORWARDED_FOR, behind(self.addresses, address.as_str()));
        fields.insert(X_FORWARDED_PROTO, self.proto.unwrap_or(HTTPS));
        fields.insert(X_FORWARDED_HOST, self.host.unwrap_or_else(|| host.clone()));
    }
}

/// Appends an element of ours to a list.
fn behind(list: Option<HeaderValue>, element: &str) -> HeaderValue {
    let longer = list.and_then(|list| {
        let list = [list.as_bytes(), b", ", element.as_bytes()].concat();
        HeaderValue::from_maybe_shared(Bytes::from(list)).ok()
    });
    longer
        .or_else(|| HeaderValue::from_str(element).ok())
        .unwrap_or(UNKNOWN)
}

/// Returns the element of `Forwarded` that stands for this server (RFC 7239).
fn element(peer: IpAddr, host: &HeaderValue) -> String {
    let host = String::from_utf8_lossy(host.as_bytes());
    match peer {
        IpAddr::V4(peer) => format!("for={peer};host=\"{host}\";proto=https"),
        IpAddr::V6(peer) => format!("for=\"[{peer}]\";host=\"{host}\";proto=https"),
    }
}

/// Text of an IP address without an allocation.
struct Text {
    bytes: [u8; 64],
    length: usize,
}

impl Text {
    fn of(address: IpAddr) -> Self {
        let mut text = Self {
            bytes: [0; 64],
            length: 0,
        };
        match address {
            IpAddr::V4(address) => text.push_v4(address.octets()),
            // A text of that size holds every address.
            IpAddr::V6(address) => drop(write!(text, "{address}")),
        }
        text
    }

    /// Appends an IPv4 address. Formatting it would cost more than all other fields.
    fn push_v4(&mut self, octets: [u8; 4]) {
        for (index, octet) in octets.into_iter().enumerate() {
            if index > 0 {
                self.push(b'.');
            }
            if octet >= 100 {
                self.push(b'0' + octet / 100);
            }
            if octet >= 10 {
                self.push(b'0' + octet / 10 % 10);
            }
            self.push(b'0' + octet % 10);
        }
    }

    fn push(&mut self, byte: u8) {
        if let Some(place) = self.bytes.get_mut(self.length) {
            *place = byte;
            self.length += 1;
        }
    }

    fn as_str(&self) -> &str {
        str::from_utf8(&self.bytes[..self.length]).unwrap_or_default()
    }
}

impl std::fmt::Write for Text {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        let end = self.length + text.len();
        let place = self
            .bytes
            .get_mut(self.length..end)
            .ok_or(std::fmt::Error)?;
        place.copy_from_slice(text.as_bytes());
        self.length = end;
        Ok(())
    }
}

const X_FORWARDED_HOST: HeaderName = HeaderName::from_static("x-forwarded-host");
const X_FORWARDED_PROTO: HeaderName = HeaderName::from_static("x-forwarded-proto");
const HTTPS: HeaderValue = HeaderValue::from_static("https");
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
            let text = Text::of(address.parse().unwrap());
            assert_eq!(text.as_str(), address);
        }
    }
}
