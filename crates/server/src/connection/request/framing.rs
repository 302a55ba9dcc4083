//! Checks how the body of an HTTP/1.1 message is framed.

use http::StatusCode;
use http::header::{HeaderMap, TRANSFER_ENCODING};

/// Answer to a request whose body is framed ambiguously.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Misframed {
    pub(crate) status: StatusCode,
    pub(crate) text: &'static str,
}

/// Accepts one transfer coding: chunked, once, without `Content-Length`. Other codings
/// get 501, chunked twice or beside a length gets 400 (RFC 9112, sections 6.1, 6.3
/// and 7). hyper checks the last coding only, and drops the length.
pub(crate) fn check(headers: &HeaderMap, has_length: bool) -> Result<(), Misframed> {
    let mut chunked = 0;
    for field in headers.get_all(TRANSFER_ENCODING) {
        for coding in field.as_bytes().split(|byte| *byte == b',') {
            if !coding.trim_ascii().eq_ignore_ascii_case(b"chunked") {
                return Err(UNKNOWN_CODING);
            }
            chunked += 1;
        }
    }
    if chunked > 1 {
        return Err(CHUNKED_TWICE);
    }
    if chunked > 0 && has_length {
        return Err(TWO_LENGTHS);
    }
    Ok(())
}

const UNKNOWN_CODING: Misframed = Misframed {
    status: StatusCode::NOT_IMPLEMENTED,
    text: "The only transfer coding of this server is chunked.\n",
};
const TWO_LENGTHS: Misframed = Misframed {
    status: StatusCode::BAD_REQUEST,
    text: "A body is chunked, or has a Content-Length.\n",
};
const CHUNKED_TWICE: Misframed = Misframed {
    status: StatusCode::BAD_REQUEST,
    text: "A body is chunked once.\n",
};
