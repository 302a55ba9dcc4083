//! Authorizes requests to the admin listener.

use std::net::IpAddr;

use http::header::{AUTHORIZATION, HOST, WWW_AUTHENTICATE};
use http::uri::Authority;
use http::{HeaderValue, Request, Response, StatusCode};

use super::token::Token;
use crate::site::body::{Body, plain};

/// Returns the refusal of a request without the token. If no token is set, it
/// refuses requests that name another host than loopback.
pub(crate) fn refuse<B>(request: &Request<B>, token: Option<&Token>) -> Option<Response<Body>> {
    match token {
        Some(token) if bears(request, token) => None,
        Some(_) => {
            let mut response = plain(StatusCode::UNAUTHORIZED);
            let scheme = HeaderValue::from_static("Bearer");
            response.headers_mut().insert(WWW_AUTHENTICATE, scheme);
            Some(response)
        }
        None if names_loopback(request) => None,
        None => Some(Body::plain(
            StatusCode::FORBIDDEN,
            "403 Forbidden: without a token, ask for 127.0.0.1 or localhost\n",
        )),
    }
}

/// Returns whether a request carries the token (RFC 6750, section 2.1).
fn bears<B>(request: &Request<B>, token: &Token) -> bool {
    let value = request.headers().get(AUTHORIZATION);
    let parts = value.and_then(|value| value.as_bytes().split_at_checked(BEARER.len()));
    parts.is_some_and(|(scheme, text)| {
        scheme.eq_ignore_ascii_case(BEARER) && token.matches(text.trim_ascii())
    })
}

/// Returns whether a request names only loopback hosts. A browser sends the
/// host of the page's address, even if that name was rebound to this address. A
/// request without a host comes from no browser.
fn names_loopback<B>(request: &Request<B>) -> bool {
    let target = request.uri().authority().map(Authority::as_str);
    let mut headers = request.headers().get_all(HOST).iter();
    target.is_none_or(|name| is_loopback(name.as_bytes()))
        && headers.all(|name| is_loopback(name.as_bytes()))
}

fn is_loopback(name: &[u8]) -> bool {
    let Ok(authority) = Authority::try_from(name) else {
        return false;
    };
    let host = authority.host();
    let address: Result<IpAddr, _> = host.trim_matches(['[', ']']).parse();
    let named = host.eq_ignore_ascii_case("localhost");
    // User information before the host disguises it.
    !authority.as_str().contains('@')
        && address.map_or(named, |address| address.to_canonical().is_loopback())
}

const BEARER: &[u8] = b"Bearer ";
