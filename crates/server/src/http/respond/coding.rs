//! Content coding of answers.

use http::Response;

use crate::site::body::Body;

/// Codes an answer, once its fields are what the client gets.
pub(super) fn code(response: Response<Body>) -> Response<Body> {
    response
}
