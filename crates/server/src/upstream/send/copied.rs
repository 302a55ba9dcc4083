//! Copy of a request, for the case that it must be sent again.

use http::{HeaderName, HeaderValue, Method, Request, Uri, Version};

use crate::upstream::request::upload::Upload;

/// Copy of a request without a body, for the case that it must be sent again. The fields
/// are a list: a map would cost more to copy, and is seldom needed.
pub(super) struct Copied {
    method: Method,
    uri: Uri,
    version: Version,
    fields: Vec<(HeaderName, HeaderValue)>,
}

impl Copied {
    pub(super) fn of(request: &Request<Upload>) -> Self {
        let mut fields = Vec::with_capacity(request.headers().len());
        for (name, value) in request.headers() {
            fields.push((name.clone(), value.clone()));
        }
        Self {
            method: request.method().clone(),
            uri: request.uri().clone(),
            version: request.version(),
            fields,
        }
    }
}

impl From<Copied> for Request<Upload> {
    fn from(copied: Copied) -> Self {
        let mut request = Self::new(Upload::default());
        *request.method_mut() = copied.method;
        *request.uri_mut() = copied.uri;
        *request.version_mut() = copied.version;
        for (name, value) in copied.fields {
            request.headers_mut().append(name, value);
        }
        request
    }
}
