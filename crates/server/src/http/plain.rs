//! Plain HTTP: answers challenges, and redirects every other request to HTTPS, unless its host
//! is served over plain HTTP.

use std::convert::Infallible;

use bytes::Bytes;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sekisho_certs::HostName;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use super::context::Service;
use super::http1_builder;
use crate::connection::client;
use crate::connection::peer::Peer;
use crate::connection::request::{Refused, Target};
use crate::http::route::BAD_HOST;
use crate::lookup::authority;
use crate::lookup::challenge;
use crate::observe::access_log::{Connection, Entry, Logged};
use crate::site::body::Body;
use crate::site::{PlainHttp, to_https};
use crate::tls::refuse;

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
    if served.host().record.tls.client_ca.is_some() {
        return false;
    }
    match served.value().site().http() {
        PlainHttp::Redirect => false,
        PlainHttp::Serve => true,
        PlainHttp::UntilCertificate => !served.is_certified(),
    }
}

/// Answers one request without `[listen] plain`: with the answer to a challenge, else with a
/// redirect to the same URL on HTTPS. A Host that is no host name gets 400. There is no lookup:
/// HTTPS answers whether the host is served.
pub(crate) async fn redirect(socket: TcpStream, peer: Peer, begun: Instant, service: &Service) {
    let answering = service_fn(async |request: Request<Incoming>| {
        let prefix = peer.address.ip().into();
        let entry = entry(&request, peer, service);
        let answer = match challenge::respond(&request, service.answers.as_deref(), prefix) {
            Some(challenged) => challenged.await,
            None => None,
        };
        let response = answer.unwrap_or_else(|| to_same_url(&request, service.https_port));
        service.metrics.request(response.status());
        Ok::<_, Infallible>(Logged::response(response, entry))
    });
    let connection = http1_builder()
        .half_close(false)
        .keep_alive(false)
        .serve_connection(TokioIo::new(socket), answering)
        .without_shutdown();
    // The answer is small, and therefore the head limit covers all of it, a read of
    // a challenge included.
    if let Ok(Ok(parts)) = timeout_at(begun + service.limits.head, connection).await {
        refuse::refuse(parts.io.into_inner(), &[]).await;
    }
}

/// Begins the access log's entry of a request; none without an access log.
fn entry<B>(request: &Request<B>, peer: Peer, service: &Service) -> Option<Box<Entry>> {
    let log = service.access_log.as_ref()?;
    let client = client::of(peer.client(), request.headers(), &service.trusted);
    let connection = Connection {
        trusted: peer.is_known && service.trusted.contain(peer.address.ip()),
        ..Connection::default()
    };
    Some(Entry::begin(log, request, client.address, connection))
}

/// Redirects a request to the same URL on HTTPS.
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
