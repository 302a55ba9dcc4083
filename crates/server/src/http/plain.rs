//! Plain HTTP: which requests are redirected to HTTPS, and where to. There are three places:
//!
//! 1. without `[listen] plain`, each request, before a host is looked up
//!    (`ConnContext::redirects_all`);
//! 2. a request whose host is not served so, once that is looked up ([`is_redirected`]);
//! 3. a request whose rule has passwords or client certificates, once the rule is found and before
//!    it is asked (`Responder::answer`).

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use sekisho_certs::HostName;

use crate::connection::request::{Refused, Target};
use crate::http::route::BAD_HOST;
use crate::lookup::authority;
use crate::site::body::Body;
use crate::site::{PlainHttp, to_https};

/// Returns whether a request that came over plain HTTP is redirected to HTTPS, where
/// `[listen] plain` has hosts looked up. Plain HTTP never gives what TLS would refuse: a name
/// that is not here, or whose lookup failed, is redirected. One that names no host is not.
pub(super) fn is_redirected(routed: &Result<Target, Refused>) -> bool {
    match routed {
        Ok(target) => !is_served(target),
        Err(refused) => refused.status != StatusCode::BAD_REQUEST,
    }
}

/// Returns whether the key `http` of a host's site lets plain HTTP be served. A host that asks
/// for client certificates is never.
fn is_served(target: &Target) -> bool {
    let served = &target.served;
    let is_wanted = match served.value().site().http() {
        PlainHttp::Redirect => false,
        PlainHttp::Serve => true,
        PlainHttp::UntilCertificate => !served.is_certified(),
    };
    is_wanted && served.host().record.tls.client_ca.is_none()
}

/// Redirects a request to the same URL on HTTPS. A Host that is no host name gets 400.
pub(super) fn to_same_url<B>(request: &Request<B>, port: u16) -> Response<Body> {
    let host = authority::of(request).and_then(|host| HostName::parse(host).ok());
    match host {
        Some(host) => to_https(&host, port, request.uri().path_and_query()),
        None => Body::plain(
            BAD_HOST.status,
            Bytes::from_static(BAD_HOST.text.as_bytes()),
        ),
    }
}

#[cfg(test)]
mod tests {
    use http::header::{HOST, HeaderValue, LOCATION};

    use super::*;

    #[test]
    fn leads_to_the_same_url() {
        for (uri, host, want) in [
            ("/", "example.com", Some("https://example.com:8443/")),
            (
                "/a?b",
                "Example.com:80",
                Some("https://example.com:8443/a?b"),
            ),
            ("*", "example.com", Some("https://example.com:8443/")),
            (
                "http://a.example/x",
                "a.example",
                Some("https://a.example:8443/x"),
            ),
            (
                "http://a.example/x",
                "b.example",
                Some("https://a.example:8443/x"),
            ),
            ("/", "", None),
            ("/", "127.0.0.1", None),
            ("/", "a/../b", None),
            ("/", "example.com\u{e9}", None),
        ] {
            let host = HeaderValue::from_bytes(host.as_bytes()).unwrap();
            let request = Request::builder().uri(uri).header(HOST, host);
            let response = to_same_url(&request.body(()).unwrap(), 8443);
            let location = response.headers().get(LOCATION);
            let location = location.map(|value| value.to_str().unwrap());
            assert_eq!(location, want, "{uri}");
            assert_eq!(response.status() == 400, want.is_none(), "{uri}");
        }
    }
}
