//! Bodies of responses.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_LENGTH, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Method, Response, StatusCode};
use http_body::{Body as _, Frame, SizeHint};
use http_body_util::Full;

/// Body of a response: bytes in memory, or frames of another body.
pub struct Body(Content);

impl Body {
    /// Makes an empty body.
    #[must_use]
    pub fn empty() -> Self {
        Self::from(Bytes::new())
    }

    /// Makes a response of plain text.
    #[must_use]
    pub fn plain(status: StatusCode, text: impl Into<Bytes>) -> Response<Self> {
        let mut response = Response::new(Self::from(text.into()));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, PLAIN);
        headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
        response
    }

    /// Passes on the frames of `body`, trailers included.
    pub(crate) fn passing<B>(body: B) -> Self
    where
        B: http_body::Body<Data = Bytes, Error = io::Error> + Send + Unpin + 'static,
    {
        Self(Content::Passed(Box::new(body)))
    }

    /// Returns how many bytes a body has that is whole in memory. None for one whose next
    /// piece may have to be waited for.
    pub(crate) fn in_memory(&self) -> Option<u64> {
        match &self.0 {
            Content::Whole(body) => body.size_hint().exact(),
            Content::Passed(_) => None,
        }
    }
}

/// Makes a short plain-text response that names the status.
pub(crate) fn plain(status: StatusCode) -> Response<Body> {
    let reason = status.canonical_reason().unwrap_or("Error");
    Body::plain(status, format!("{} {reason}\n", status.as_u16()))
}

/// Leaves the content out of an answer to HEAD, and tells its length where that is known. Over
/// HTTP/2, hyper would send it, and clients take DATA behind such a head for an error (RFC 9113,
/// section 8.1.1).
pub(crate) fn without_content(mut response: Response<Body>) -> Response<Body> {
    if response.body().is_end_stream() {
        return response;
    }
    if let Some(length) = response.body().size_hint().exact() {
        let headers = response.headers_mut();
        headers
            .entry(CONTENT_LENGTH)
            .or_insert_with(|| length.into());
    }
    response.map(|_| Body::empty())
}

/// Returns whether a method reads: GET or HEAD.
pub(crate) fn is_read(method: &Method) -> bool {
    *method == Method::GET || *method == Method::HEAD
}

/// Makes the answer 405 to a method that is not one of those allowed.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response<Body> {
    not_allowed(HeaderValue::from_static(allowed))
}

/// Makes the answer 405 with the value of `Allow`.
pub(crate) fn not_allowed(allowed: HeaderValue) -> Response<Body> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
    response.headers_mut().insert(ALLOW, allowed);
    response
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        Self(Content::Whole(Full::new(bytes)))
    }
}

impl http_body::Body for Body {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        match &mut self.0 {
            Content::Whole(body) => Pin::new(body)
                .poll_frame(cx)
                .map_err(|never| match never {}),
            Content::Passed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Whole(body) => body.is_end_stream(),
            Content::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.0 {
            Content::Whole(body) => body.size_hint(),
            Content::Passed(body) => body.size_hint(),
        }
    }
}

enum Content {
    Whole(Full<Bytes>),
    Passed(Box<dyn http_body::Body<Data = Bytes, Error = io::Error> + Send + Unpin>),
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Body({:?})", self.in_memory())
    }
}

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
