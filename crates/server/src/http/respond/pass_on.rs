//! Passes requests on to upstreams.

use std::sync::Arc;

use http::request::Parts;
use http::{Response, StatusCode};
use hyper::body::Incoming;

use super::admission::Refused;
use super::{Author, PASSED_ON, discard, is_trace};
use crate::connection::request::RequestContext;
use crate::observe::metrics::RequestRefusal;
use crate::site::body::{Body, method_not_allowed, plain};
use crate::upstream::{self, ForwardTo, forward};

/// Passes a request on. Returns whose the answer is.
pub(super) async fn pass_on(
    context: &RequestContext<'_>,
    upstreams: &Arc<upstream::Worker>,
    to: ForwardTo<'_>,
    head: Parts,
    body: Option<Incoming>,
) -> (Author, Response<Body>) {
    if is_trace(&head.method) {
        discard(context, &head, body, None).await;
        return (Author::Server, method_not_allowed(PASSED_ON));
    }
    let response = match forward(context, upstreams, to, head, body).await {
        Ok(response) => return (Author::Upstream, response),
        Err(StatusCode::PAYLOAD_TOO_LARGE) => {
            Refused::of(RequestRefusal::Body).answer(context.metrics)
        }
        Err(status) => plain(status),
    };
    (Author::Server, response)
}
