//! Compresses answers on their way to the client.

use std::sync::Arc;

use http::header::{
    CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, ETAG, IF_NONE_MATCH,
    SET_COOKIE, VARY,
};
use http::{HeaderMap, HeaderValue, Response, StatusCode};
use http_body::Body as _;
use http_body_util::BodyExt as _;
use memchr::memmem;

use super::Author;
use crate::coding::accept::Accepted;
use crate::coding::encode::LEAST;
use crate::coding::stream::compress_stream;
use crate::coding::{BY_CODING, is_of_type, lists, mark, weaken};
use crate::connection::request::RequestContext;
use crate::files::{Files, Source};
use crate::site::body::Body;
use crate::site::{Coding, Compress, RuleOptions};

/// Codings that a client takes, and its `If-None-Match`.
pub(super) type Wish = (Accepted, Option<HeaderValue>);

/// Reads the fields of a request; none if the rule compresses nothing.
pub(super) fn read_wish(options: Option<&RuleOptions>, fields: &HeaderMap) -> Option<Wish> {
    options?.compress.as_ref()?;
    Some((Accepted::of(fields), fields.get(IF_NONE_MATCH).cloned()))
}

/// Compresses an answer, once its fields are what the client gets:
///
/// 1. a 304 gets the tag that the client has, and names the field that chose its form;
/// 2. an answer that may not be compressed stays as it is;
/// 3. `Vary` names the field that chooses the coding, also if none is chosen;
/// 4. the answer to a HEAD, or with less than [`LEAST`] bytes, stays as it is;
/// 5. a body in memory is compressed as the client likes best, if it gets smaller;
/// 6. another body is compressed by gzip while it is sent, if the client's network may have
///    one more encoder.
pub(super) async fn compress_answer(
    context: &RequestContext<'_>,
    files: &Files,
    (compress, author, is_head): (&Compress, Author, bool),
    (accepted, tags): Wish,
    mut response: Response<Body>,
) -> Response<Body> {
    if response.status() == StatusCode::NOT_MODIFIED {
        let fields = response.headers_mut();
        let tag = fields.get(ETAG).map_or(&b""[..], HeaderValue::as_bytes);
        let weak = [&b"W/"[..], tag].concat();
        let is_weak = |tags: &HeaderValue| memmem::find(tags.as_bytes(), &weak).is_some();
        if tags.iter().any(is_weak) {
            weaken(fields);
            vary(fields);
        }
        return response;
    }
    if !may_compress(compress, author, &response) {
        return response;
    }
    vary(response.headers_mut());
    let length = response.body().size_hint().exact();
    if is_head || length.is_some_and(|length| length < LEAST as u64) {
        return response;
    }
    let Some(coding) = accepted.order(&Compress::CODINGS).next() else {
        return response;
    };
    let in_memory = response.body().in_memory();
    if in_memory.is_some_and(|length| length <= MAX_WHOLE) {
        // Sites of all levels share copies in br, which has one.
        let level = compress.level * u8::from(coding == Coding::Gzip);
        return send_whole(context, files, (coding, level), response).await;
    }
    // A stream of br takes MiB of memory.
    if accepted.order(&[Coding::Gzip]).next().is_none() {
        return response;
    }
    let coders = files.coders();
    let Some(encoder) = coders.try_encoder(context.client.into(), compress.level) else {
        return response;
    };
    mark(response.headers_mut(), Coding::Gzip);
    let tenant = context.tenant.clone();
    response.map(|body| compress_stream(body, encoder, Arc::clone(coders), tenant))
}

/// Answers with a body that is whole in memory. That of a cached file is kept in the cache.
/// Any other counts as held over HTTP/2, among the bytes that clients have not taken yet, as
/// it did before it was compressed.
async fn send_whole(
    context: &RequestContext<'_>,
    files: &Files,
    how: (Coding, u8),
    mut response: Response<Body>,
) -> Response<Body> {
    let source = response.extensions_mut().remove::<Source>();
    let (mut head, body) = response.into_parts();
    let body = body.collect().await.expect("a body in memory").to_bytes();
    let is_kept = source.is_some();
    let coded = files.compress(source, context.tenant, how, body.clone());
    let Some(mut coded) = coded.await else {
        return Response::from_parts(head, body.into());
    };
    if let (false, Some(held)) = (is_kept, context.connection.timeouts.held()) {
        coded = held.count_piece(coded, true);
    }
    mark(&mut head.headers, how.0);
    head.headers.insert(CONTENT_LENGTH, coded.len().into());
    Response::from_parts(head, coded.into())
}

/// Returns whether an answer may be compressed, for a client that takes it so.
fn may_compress(compress: &Compress, author: Author, response: &Response<Body>) -> bool {
    let (status, fields) = (response.status(), response.headers());
    // RFC 9111, section 5.2.2.6.
    let is_fixed = |value: &HeaderValue| lists(value, "no-transform");
    let is_identity = |coding: &HeaderValue| coding.as_bytes().eq_ignore_ascii_case(b"identity");
    !status.is_informational()
        && !WITHOUT_WHOLE.contains(&status)
        && fields.get_all(CONTENT_ENCODING).iter().all(is_identity)
        && !fields.contains_key(CONTENT_RANGE)
        && !fields.get_all(CACHE_CONTROL).iter().any(is_fixed)
        && (author != Author::Upstream || compress.upstream)
        && (!fields.contains_key(SET_COOKIE) || compress.cookies)
        && compress.takes(fields)
        && !is_of_type(fields, &MESSAGES)
}

/// Adds the field that chooses the coding to `Vary`.
fn vary(fields: &mut HeaderMap) {
    let names = |value: &HeaderValue| lists(value, "*") || lists(value, "Accept-Encoding");
    if !fields.get_all(VARY).iter().any(names) {
        fields.append(VARY, BY_CODING);
    }
}

/// Statuses without a body, or with a part of one.
const WITHOUT_WHOLE: [StatusCode; 3] = [
    StatusCode::NO_CONTENT,
    StatusCode::RESET_CONTENT,
    StatusCode::PARTIAL_CONTENT,
];
/// Beginnings of the media types of messages, which clients read one by one.
pub(super) const MESSAGES: [&str; 3] = [
    "text/event-stream",
    "application/grpc",
    "multipart/x-mixed-replace",
];
/// Bytes of the largest body that is compressed as a whole.
const MAX_WHOLE: u64 = 64 << 10;

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::HeaderName;

    use super::*;

    type Fields<'a> = &'a [(&'a str, &'static str)];

    fn response(status: u16, fields: Fields<'_>, body: &str) -> Response<Body> {
        let mut response = Response::new(Body::from(Bytes::from(body.to_owned())));
        *response.status_mut() = StatusCode::from_u16(status).unwrap();
        for (name, value) in fields {
            let name = HeaderName::from_bytes(name.as_bytes()).unwrap();
            let value = HeaderValue::from_static(value);
            response.headers_mut().append(name, value);
        }
        response
    }

    fn compress() -> Compress {
        Compress {
            types: None,
            level: 4,
            upstream: false,
            cookies: false,
        }
    }

    #[test]
    fn what_may_be_compressed() {
        let html = ("content-type", "text/html");
        let table: &[(u16, Fields<'_>, bool)] = &[
            (200, &[html], true),
            (404, &[html], true),
            (200, &[], false),
            (200, &[("content-type", "image/png")], false),
            (101, &[html], false),
            (103, &[html], false),
            (204, &[html], false),
            (205, &[html], false),
            (206, &[html], false),
            (200, &[html, ("content-range", "bytes 0-1/2")], false),
            (200, &[html, ("content-encoding", "gzip")], false),
            (200, &[html, ("content-encoding", "identity, gzip")], false),
            (200, &[html, ("content-encoding", "Identity")], true),
            (
                200,
                &[
                    html,
                    ("content-encoding", "identity"),
                    ("content-encoding", "br"),
                ],
                false,
            ),
            (
                200,
                &[html, ("cache-control", "max-age=1, no-transform")],
                false,
            ),
            (
                200,
                &[
                    html,
                    ("cache-control", "public"),
                    ("cache-control", "No-Transform"),
                ],
                false,
            ),
            (200, &[html, ("cache-control", "x=\"no-transform\"")], true),
            (200, &[html, ("set-cookie", "a=b")], false),
            (200, &[("content-type", "text/event-stream")], false),
            (
                200,
                &[("content-type", "Text/Event-Stream;charset=utf-8")],
                false,
            ),
            (200, &[("content-type", "application/grpc+json")], false),
            (
                200,
                &[("content-type", "multipart/x-mixed-replace;boundary=a")],
                false,
            ),
        ];
        let mut compress = compress();
        for (status, fields, expected) in table {
            let response = response(*status, fields, "");
            let may_compress = |author| may_compress(&compress, author, &response);
            assert_eq!(
                may_compress(Author::Server),
                *expected,
                "{status} {fields:?}"
            );
            assert!(!may_compress(Author::Upstream), "{status} {fields:?}");
        }
        (compress.upstream, compress.cookies) = (true, true);
        let response = response(200, &[html, ("set-cookie", "a=b")], "");
        assert!(may_compress(&compress, Author::Upstream, &response));
        // Listed or not, messages are not joined.
        compress.types = Some([crate::site::MediaRange::Any].into());
        for kind in MESSAGES {
            let response = super::tests::response(200, &[("content-type", kind)], "");
            assert!(
                !may_compress(&compress, Author::Server, &response),
                "{kind}"
            );
        }
    }

    #[test]
    fn vary_names_the_field_once() {
        for (values, expected) in [
            (&[][..], &["Accept-Encoding"][..]),
            (&["Origin"], &["Origin", "Accept-Encoding"]),
            (&["Origin, accept-encoding"], &["Origin, accept-encoding"]),
            (&["a", "*"], &["a", "*"]),
        ] {
            let fields: Vec<_> = values.iter().map(|value| ("vary", *value)).collect();
            let mut response = response(200, &fields, "");
            vary(response.headers_mut());
            let values = response.headers().get_all(VARY).iter();
            assert!(values.eq(expected.iter().copied()), "{expected:?}");
        }
    }
}
