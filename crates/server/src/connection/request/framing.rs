//! Checks how the body of an HTTP/1.1 message is framed.

use http::StatusCode;
use http::header::{HeaderMap, TRANSFER_ENCODING};

use super::Refused;

/// Accepts one transfer coding: chunked, once, without `Content-Length`. Other codings
/// get 501, chunked twice or beside a length gets 400 (RFC 9112, sections 6.1, 6.3
/// and 7). hyper checks the last coding only, and drops the length.
pub(crate) fn check(headers: &HeaderMap, has_length: bool) -> Result<(), Refused> {
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

const UNKNOWN_CODING: Refused = Refused::new(
    StatusCode::NOT_IMPLEMENTED,
    "The only transfer coding of this server is chunked.\n",
)
.ending();
const TWO_LENGTHS: Refused = Refused::new(
    StatusCode::BAD_REQUEST,
    "A body is chunked, or has a Content-Length.\n",
)
.ending();
const CHUNKED_TWICE: Refused =
    Refused::new(StatusCode::BAD_REQUEST, "A body is chunked once.\n").ending();
