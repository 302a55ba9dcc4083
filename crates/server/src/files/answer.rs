//! Responses with files.

use std::ops::Range;
use std::time::SystemTime;

use bytes::Bytes;
use http::header::{
    CACHE_CONTROL, CONTENT_DISPOSITION, CONTENT_ENCODING, CONTENT_LANGUAGE, CONTENT_LENGTH,
    CONTENT_LOCATION, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED, RANGE, TRAILER, VARY,
};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Response, StatusCode};

use super::Asked;
use super::conditional::{Validators, Verdict, evaluate, range_applies};
use super::load::{Head, LargeFile, SmallFile};
use super::permits::OpenPermit;
use super::range::{Selection, select};
use super::reads::FolderReads;
use super::stream::Stream;
use crate::coding::{BY_CODING, OF_IDENTITY};
use crate::site::CacheRule;
use crate::site::body::{Body, plain};

/// Answers with a cached file.
pub(crate) fn cached(asked: &Asked<'_>, file: &SmallFile) -> Response<Body> {
    respond(asked, &file.head, |part| {
        let at = |offset| usize::try_from(offset).expect("a small file's offset");
        let slice: Bytes = file.body.slice(at(part.start)..at(part.end));
        slice.into()
    })
}

/// Answers with a file that is read while it is sent.
pub(crate) fn streamed(
    asked: &Asked<'_>,
    large: LargeFile,
    reads: FolderReads,
    permit: OpenPermit,
) -> Response<Body> {
    let LargeFile { head, file } = large;
    respond(asked, &head, |part| {
        let len = part.end - part.start;
        Body::passing(Stream::new(file, part.start, len, reads, permit))
    })
}

fn respond(
    asked: &Asked<'_>,
    head: &Head,
    body: impl FnOnce(Range<u64>) -> Body,
) -> Response<Body> {
    let request = asked.head;
    let validators = Validators {
        etag: head.etag.as_bytes(),
        modified: head.modified,
    };
    let (status, headers, body) = match evaluate(&request.headers, validators) {
        Verdict::Failed => return plain(StatusCode::PRECONDITION_FAILED),
        Verdict::NotModified => (
            StatusCode::NOT_MODIFIED,
            not_modified_headers(asked, head),
            Body::empty(),
        ),
        Verdict::Proceed => {
            let (status, headers, part) = match selection(request, head, validators) {
                Selection::Whole => (StatusCode::OK, head.headers.clone(), 0..head.len),
                Selection::Part(part) => (
                    StatusCode::PARTIAL_CONTENT,
                    partial_headers(head, &part),
                    part,
                ),
                Selection::Unsatisfiable => return unsatisfiable(head),
            };
            // `Content-Length` is set: a HEAD reports the length without the
            // body.
            let is_head = request.method == Method::HEAD;
            let body = if is_head { Body::empty() } else { body(part) };
            (status, headers, body)
        }
    };
    let mut response = Response::new(body);
    *response.status_mut() = status;
    *response.headers_mut() = headers;
    if !asked.cache().is_empty()
        && let Some(value) = CacheRule::of(asked.cache(), head.headers.get(CONTENT_TYPE))
    {
        // A 304 too: it renews what the client has (RFC 9110, section 15.4.5).
        response.headers_mut().insert(CACHE_CONTROL, value.clone());
    }
    response
}

/// Replaces the content of an error by that of a page. The status stays, and so
/// do fields that do not describe the content. Fields that describe the content of an
/// upstream's error are removed.
pub(crate) fn page(
    error: Response<Body>,
    is_head: bool,
    head: &Head,
    body: impl FnOnce() -> Body,
) -> Response<Body> {
    let mut response = error.map(|_| if is_head { Body::empty() } else { body() });
    for name in OF_CONTENT.into_iter().chain(OF_IDENTITY) {
        response.headers_mut().remove(name);
    }
    for name in [CONTENT_TYPE, CONTENT_LENGTH] {
        if let Some(value) = head.headers.get(&name) {
            response.headers_mut().insert(name, value.clone());
        }
    }
    response
}

/// Selects the range of a GET; other methods have none (RFC 9110, section
/// 14.2).
fn selection(request: &Parts, head: &Head, validators: Validators<'_>) -> Selection {
    match request.headers.get(RANGE) {
        Some(range)
            if request.method == Method::GET
                && range_applies(&request.headers, validators, SystemTime::now()) =>
        {
            select(range.as_bytes(), head.len)
        }
        _ => Selection::Whole,
    }
}

fn not_modified_headers(asked: &Asked<'_>, head: &Head) -> HeaderMap {
    let mut headers = head.headers.clone();
    let compress = asked.options.and_then(|options| options.compress.as_ref());
    if compress.is_some_and(|compress| compress.takes(&headers)) {
        // As the 200 has it (RFC 9110, section 15.4.5).
        headers.insert(VARY, BY_CODING);
    }
    headers.remove(CONTENT_LENGTH);
    headers.remove(CONTENT_TYPE);
    headers.remove(CONTENT_ENCODING);
    headers
}

fn partial_headers(head: &Head, part: &Range<u64>) -> HeaderMap {
    let mut headers = head.headers.clone();
    let range = format!("bytes {}-{}/{}", part.start, part.end - 1, head.len);
    headers.insert(CONTENT_RANGE, text(&range));
    headers.insert(CONTENT_LENGTH, (part.end - part.start).into());
    headers
}

fn unsatisfiable(head: &Head) -> Response<Body> {
    let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
    response
        .headers_mut()
        .insert(CONTENT_RANGE, text(&format!("bytes */{}", head.len)));
    response
}

fn text(value: &str) -> HeaderValue {
    HeaderValue::from_str(value).expect("digits are visible ASCII")
}

/// Fields that tell of an error's content, in whatever coding, or announce what follows it.
const OF_CONTENT: [HeaderName; 7] = [
    CONTENT_DISPOSITION,
    CONTENT_ENCODING,
    CONTENT_LANGUAGE,
    CONTENT_LOCATION,
    ETAG,
    LAST_MODIFIED,
    TRAILER,
];
