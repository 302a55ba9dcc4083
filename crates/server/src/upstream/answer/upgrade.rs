//! Requests that leave HTTP: `Upgrade` over HTTP/1.1, and extended CONNECT over
//! HTTP/2 (RFC 8441), both towards an HTTP/1.1 upstream.

use aws_lc_rs::digest::{SHA1_FOR_LEGACY_USE_ONLY, digest};
use aws_lc_rs::rand;
use data_encoding::BASE64;
use http::header::{CONNECTION, HeaderValue, SEC_WEBSOCKET_ACCEPT, SEC_WEBSOCKET_KEY, UPGRADE};
use http::request::Parts;
use http::{Method, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::ext::Protocol;
use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

use super::tunnel::{self, Leaving, Tunnel};
use crate::connection::request::RequestContext;
use crate::observe::access_log::Handover;
use crate::site::body::Body;
use crate::upstream::answer;
use crate::upstream::connections::bounded::Bound;
use crate::upstream::connections::transport::Transport;
use crate::upstream::failure::Failure;
use crate::upstream::request::fields;
use crate::upstream::request::head::UPGRADE_OPTION;

/// Extended CONNECT of a client over HTTP/2.
pub(in crate::upstream) struct Connect {
    upgraded: OnUpgrade,
    /// Value of `Sec-WebSocket-Accept` that proves an upgrade.
    accept: String,
}

/// Turns an extended CONNECT into a WebSocket handshake of HTTP/1.1. None for
/// other requests.
///
/// # Errors
/// 405 for a plain CONNECT, 501 for other protocols.
pub(in crate::upstream) fn extended_connect(
    head: &mut Parts,
) -> Result<Option<Connect>, StatusCode> {
    if head.method != Method::CONNECT {
        return Ok(None);
    }
    let protocol = head.extensions.remove::<Protocol>();
    let protocol = protocol.ok_or(StatusCode::METHOD_NOT_ALLOWED)?;
    if !protocol.as_str().eq_ignore_ascii_case("websocket") {
        return Err(StatusCode::NOT_IMPLEMENTED);
    }
    let mut nonce = [0; 16];
    rand::fill(&mut nonce).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    let key = BASE64.encode(&nonce);
    let accept = accept(&key);
    let key = HeaderValue::try_from(key).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    head.method = Method::GET;
    head.version = Version::HTTP_11;
    head.headers.insert(CONNECTION, UPGRADE_OPTION);
    head.headers.insert(UPGRADE, WEBSOCKET);
    head.headers.insert(SEC_WEBSOCKET_KEY, key);
    let upgraded = head.extensions.remove::<OnUpgrade>();
    let upgraded = upgraded.ok_or(StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(Some(Connect { upgraded, accept }))
}

/// Passes an upstream's 101 on, and begins to copy bytes both ways.
///
/// # Errors
/// If the upstream switched to something else.
pub(in crate::upstream) async fn switch(
    mut response: Response<Incoming>,
    asked: &HeaderValue,
    connect: Option<Connect>,
    context: &RequestContext<'_>,
    request: Leaving,
) -> Result<Response<Body>, Failure> {
    let protocol = response.headers().get(UPGRADE).cloned();
    let protocol = protocol.filter(|protocol| is_one_of(protocol, asked));
    let protocol = protocol.ok_or(Failure::answer("it switched to another protocol"))?;
    if let Some(connect) = &connect {
        let accepted = response.headers().get(SEC_WEBSOCKET_ACCEPT);
        if accepted.is_none_or(|value| value.as_bytes() != connect.accept.as_bytes()) {
            return Err(Failure::answer("its Sec-WebSocket-Accept is wrong"));
        }
    }
    let upgraded = hyper::upgrade::on(&mut response).await;
    let upgraded = upgraded.map_err(|error| Failure::Answer(error.into()))?;
    let parts = upgraded.downcast::<TokioIo<Transport>>();
    let parts = parts.map_err(|_| Failure::answer("it is no connection of ours"))?;
    let upstream = parts.io.into_inner().bounded(Bound::None);
    // A tunnel that is given up has no request in flight.
    upstream
        .keep_written()
        .map_err(|error| Failure::Answer(error.into()))?;
    let entry = context.entry.map(|_| Handover::default());
    let tunnel = Tunnel {
        upstream,
        received: parts.read_buf,
        entry: entry.clone(),
        request,
    };
    answer::clean(response.headers_mut())?;
    let (mut head, _) = response.into_parts();
    head.version = Version::HTTP_11;
    match connect {
        None => {
            head.headers.insert(CONNECTION, UPGRADE_OPTION);
            head.headers.insert(UPGRADE, protocol);
            let takeover = tunnel::over_http1(tunnel, context.connection);
            context.connection.take_over(takeover);
        }
        Some(connect) => {
            head.status = StatusCode::OK;
            head.headers.remove(SEC_WEBSOCKET_ACCEPT);
            tunnel::over_http2(connect.upgraded, tunnel, context.connection);
        }
    }
    if let Some(entry) = entry {
        head.extensions.insert(entry);
    }
    Ok(Response::from_parts(head, Body::empty()))
}

/// Returns whether a protocol is one of a list, regardless of case.
fn is_one_of(protocol: &HeaderValue, list: &HeaderValue) -> bool {
    let protocol = protocol.as_bytes().trim_ascii();
    fields::elements(list).any(|one| one.eq_ignore_ascii_case(protocol))
}

/// Returns what a server answers to a key (RFC 6455, section 4.2.2).
fn accept(key: &str) -> String {
    let text = format!("{key}258EAFA5-E914-47DA-95CA-C5AB0DC85B11");
    let hash = digest(&SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
    BASE64.encode(hash.as_ref())
}

const WEBSOCKET: HeaderValue = HeaderValue::from_static("websocket");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accepts_the_key_of_the_rfc() {
        let accepted = accept("dGhlIHNhbXBsZSBub25jZQ==");
        assert_eq!(accepted, "s3pPLMBiTxaQ9kYGzzhZRbK+xOo=");
    }
}
