//! Bodies of responses.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::{ALLOW, CONTENT_TYPE, X_CONTENT_TYPE_OPTIONS};
use http::{HeaderValue, Response, StatusCode};
use http_body::{Frame, SizeHint};

/// Body of a response: nothing, bytes in memory, or frames of another body.
#[derive(Debug)]
pub struct Body(Content);

impl Body {
    /// Makes an empty body.
    #[must_use]
    pub const fn empty() -> Self {
        Self(Content::Empty)
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
    pub(crate) fn in_memory(&self) -> Option<usize> {
        match &self.0 {
            Content::Empty => Some(0),
            Content::Bytes(bytes) => Some(bytes.len()),
            Content::Passed(_) => None,
        }
    }
}

/// Makes a short plain-text response that names the status.
pub(crate) fn plain(status: StatusCode) -> Response<Body> {
    let reason = status.canonical_reason().unwrap_or("Error");
    Body::plain(status, format!("{} {reason}\n", status.as_u16()))
}

/// Makes the answer 405 to a method that is not one of those allowed.
pub(crate) fn method_not_allowed(allowed: &'static str) -> Response<Body> {
    let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
    let allowed = HeaderValue::from_static(allowed);
    response.headers_mut().insert(ALLOW, allowed);
    response
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() {
            Self::empty()
        } else {
            Self(Content::Bytes(bytes))
        }
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
            Content::Empty => Poll::Ready(None),
            Content::Bytes(bytes) => {
                let bytes = std::mem::take(bytes);
                self.0 = Content::Empty;
                Poll::Ready(Some(Ok(Frame::data(bytes))))
            }
            Content::Passed(body) => Pin::new(body).poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.0 {
            Content::Empty => true,
            Content::Bytes(_) => false,
            Content::Passed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match &self.0 {
            Content::Empty => 0,
            Content::Bytes(bytes) => bytes.len() as u64,
            Content::Passed(body) => return body.size_hint(),
        })
    }
}

enum Content {
    Empty,
    Bytes(Bytes),
    Passed(Box<dyn http_body::Body<Data = Bytes, Error = io::Error> + Send + Unpin>),
}

impl fmt::Debug for Content {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("Empty"),
            Self::Bytes(bytes) => write!(f, "Bytes({})", bytes.len()),
            Self::Passed(_) => f.write_str("Passed"),
        }
    }
}

const PLAIN: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
pub(crate) const NOSNIFF: HeaderValue = HeaderValue::from_static("nosniff");
