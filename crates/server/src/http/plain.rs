//! HTTP without TLS: everything is elsewhere.

use std::convert::Infallible;

use http::header::{CONTENT_LENGTH, HOST, LOCATION};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Empty;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use sekisho_certs::HostName;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{MAX_HEAD, MAX_HEADERS};
use crate::refuse;
use crate::shared::Shared;

/// Answers one request with the same URL on HTTPS: 301 for GET and HEAD, 308
/// for other methods, which must be repeated as they are (RFC 9110, section
/// 15.4.9). A host that is no host name gets 400. No lookup: whether the host
/// is served shows there.
pub(crate) async fn redirect(socket: TcpStream, shared: &Shared) {
    let port = shared.https_port;
    let service = service_fn(|request: Request<Incoming>| {
        let response = elsewhere(&request, port);
        shared.metrics.request(response.status());
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .header_read_timeout(None)
        .keep_alive(false)
        .max_header_size(MAX_HEAD)
        .max_buf_size(MAX_HEAD)
        .max_headers(MAX_HEADERS)
        .serve_connection(TokioIo::new(socket), service)
        .without_shutdown();
    // One small answer: the limit for the head holds for all of it.
    if let Ok(Ok(parts)) = timeout(shared.limits.head, connection).await {
        refuse::refuse(parts.io.into_inner(), &[]).await;
    }
}

fn elsewhere(request: &Request<Incoming>, port: u16) -> Response<Empty<Bytes>> {
    let mut response = Response::new(Empty::new());
    let location = location(request, port);
    *response.status_mut() = match (&location, request.method()) {
        (None, _) => StatusCode::BAD_REQUEST,
        (_, &Method::GET | &Method::HEAD) => StatusCode::MOVED_PERMANENTLY,
        _ => StatusCode::PERMANENT_REDIRECT,
    };
    let headers = response.headers_mut();
    headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    if let Some(location) = location {
        headers.insert(LOCATION, location);
    }
    response
}

fn location<B>(request: &Request<B>, port: u16) -> Option<HeaderValue> {
    let host = match request.uri().authority() {
        Some(authority) => authority.host(),
        None => {
            let mut hosts = request.headers().get_all(HOST).iter();
            let host = hosts.next()?.to_str().ok()?;
            if hosts.next().is_some() {
                return None;
            }
            host.split_once(':').map_or(host, |(host, _)| host)
        }
    };
    let host = HostName::parse(host).ok()?;
    let path = request
        .uri()
        .path_and_query()
        .map_or("/", |path| path.as_str());
    let path = if path.starts_with('/') { path } else { "/" };
    let url = if port == HTTPS {
        format!("https://{host}{path}")
    } else {
        format!("https://{host}:{port}{path}")
    };
    HeaderValue::try_from(url).ok()
}

const HTTPS: u16 = 443;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leads_to_the_same_url() {
        for (uri, host, port, want) in [
            ("/", "example.com", 443, Some("https://example.com/")),
            (
                "/a?b=c",
                "Example.com:80",
                443,
                Some("https://example.com/a?b=c"),
            ),
            (
                "/a",
                "example.com",
                8443,
                Some("https://example.com:8443/a"),
            ),
            ("*", "example.com", 443, Some("https://example.com/")),
            (
                "http://other.example/x",
                "example.com",
                443,
                Some("https://other.example/x"),
            ),
            ("/", "", 443, None),
            ("/", "127.0.0.1", 443, None),
            ("/", "a/../b", 443, None),
            ("/", "example.com\u{e9}", 443, None),
        ] {
            let host = HeaderValue::from_bytes(host.as_bytes()).unwrap();
            let request = Request::builder()
                .uri(uri)
                .header(HOST, host)
                .body(())
                .unwrap();
            let got = location(&request, port);
            let got = got.as_ref().map(|value| value.to_str().unwrap());
            assert_eq!(got, want, "{uri}");
        }
    }
}
