//! Tokens of HTTP-01 challenges (RFC 8555, section 8.3).

use std::ops::RangeInclusive;

use bytes::Bytes;
use http::header::{CACHE_CONTROL, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Request, Response};
use sekisho_certs::KeyAuthorization;

use crate::lookup::authority;
use crate::site::body::{Body, NOSNIFF};

/// Returns the token that a request asks for. None for any other request, and
/// for one that names no host.
pub(super) fn of<B>(request: &Request<B>) -> Option<&str> {
    let token = request.uri().path().strip_prefix(FOLDER)?;
    let is_token = LENGTH.contains(&token.len())
        && token
            .bytes()
            .all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    let is_asked = request.method() == Method::GET && authority::of(request).is_some();
    (is_token && is_asked).then_some(token)
}

/// Makes the response, which no cache keeps: the CA must see a change.
pub(super) fn response(answer: &KeyAuthorization) -> Response<Body> {
    let content = Bytes::copy_from_slice(answer.as_str().as_bytes());
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, BINARY);
    headers.insert(CACHE_CONTROL, NO_STORE);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

const FOLDER: &str = "/.well-known/acme-challenge/";

/// Characters of a token: at least 128 bits of base64url (RFC 8555, section
/// 8.3). Let's Encrypt's have 43.
const LENGTH: RangeInclusive<usize> = 22..=128;

const BINARY: HeaderValue = HeaderValue::from_static("application/octet-stream");
const NO_STORE: HeaderValue = HeaderValue::from_static("no-store");

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(method: &str, path: &str) -> Option<String> {
        let request = Request::builder().method(method).uri(path);
        let request = request.header("host", "a.example").body(()).unwrap();
        of(&request).map(str::to_owned)
    }

    #[test]
    fn only_a_token_is_asked_for() {
        let token = "abcdefghij-ABCDEFGHIJ_0123";
        let path = format!("{FOLDER}{token}");
        for path in [
            path.clone(),
            format!("{path}?x=y"),
            format!("https://a.example{path}"),
        ] {
            assert_eq!(asked("GET", &path).as_deref(), Some(token), "{path}");
            assert_eq!(asked("HEAD", &path), None);
        }
        for other in [
            format!("{path}/"),
            format!("{path}/x"),
            format!("{path}%41"),
            format!("{path}="),
            format!("{path}."),
            format!("{path}~"),
            format!("/{path}"),
            format!("/.well-known/acme-challenges/{token}"),
            FOLDER.to_owned(),
            "*".to_owned(),
        ] {
            assert_eq!(asked("GET", &other), None, "{other}");
        }
        for (length, is_token) in [(21, false), (22, true), (128, true), (129, false)] {
            let path = format!("{FOLDER}{}", "a".repeat(length));
            assert_eq!(asked("GET", &path).is_some(), is_token, "{length}");
        }
    }

    #[test]
    fn a_request_without_a_host_goes_on() {
        let path = format!("{FOLDER}{}", "a".repeat(43));
        assert_eq!(of(&Request::get(path).body(()).unwrap()), None);
    }
}
