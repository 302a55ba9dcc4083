//! Checks how the body of an HTTP/1.1 request is framed.

use http::StatusCode;
use http::header::{HeaderMap, TRANSFER_ENCODING};

use crate::route::Refused;

/// Accepts one transfer coding: chunked, once. Other codings get 501, and
/// chunked twice gets 400 (RFC 9112, sections 6.1 and 7). hyper checks the last
/// coding only.
pub(crate) fn check(headers: &HeaderMap) -> Result<(), Refused> {
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
    Ok(())
}

const UNKNOWN_CODING: Refused = Refused {
    status: StatusCode::NOT_IMPLEMENTED,
    text: "The only transfer coding of this server is chunked.\n",
    ends: true,
    lookup: None,
};
const CHUNKED_TWICE: Refused = Refused {
    status: StatusCode::BAD_REQUEST,
    text: "A body is chunked once.\n",
    ends: true,
    lookup: None,
};
