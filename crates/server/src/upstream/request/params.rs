//! Parameters of a script: the variables of CGI (RFC 3875, section 4.1), and those that
//! nginx's `fastcgi_params` adds.

use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue};
use http::{Method, Version};

use super::fields;
use crate::connection::request::RequestContext;

/// Script that answers a request.
#[derive(Debug)]
pub(crate) struct Script<'a> {
    /// Root of the site as it was written, filled for the host.
    pub(crate) root: &'a str,
    /// Path of the script below the root, without a slash before it.
    pub(crate) file: &'a str,
    /// Path by which clients ask for the script.
    pub(crate) name: String,
    /// The rest of the path behind the script: empty, or with a slash before it.
    pub(crate) info: &'a str,
    /// Path that was matched, percent-encoded. Scripts that route by it see none that no rule
    /// has judged.
    pub(crate) path: &'a str,
    /// Query as it came.
    pub(crate) query: &'a str,
    /// Version of HTTP that the client speaks.
    pub(crate) version: Version,
    /// User that a password has shown.
    pub(crate) user: Option<&'a str>,
}

impl Script<'_> {
    /// Gives each parameter of a request whose head was prepared for an upstream, and whose
    /// body has so many bytes.
    pub(in crate::upstream) fn params(
        &self,
        (method, fields): (&Method, &HeaderMap),
        length: Option<u64>,
        context: &RequestContext<'_>,
        mut give: impl FnMut(&[u8], &[u8]),
    ) {
        let mut text = |name: &str, value: &str| give(name.as_bytes(), value.as_bytes());
        text("GATEWAY_INTERFACE", "CGI/1.1");
        text("SERVER_SOFTWARE", "sekisho");
        text("SERVER_PROTOCOL", protocol(self.version));
        text("REQUEST_METHOD", method.as_str());
        text("REQUEST_SCHEME", context.scheme());
        if !context.connection.is_plain() {
            text("HTTPS", "on");
        }
        text("QUERY_STRING", self.query);
        text("REQUEST_URI", &self.uri());
        text("DOCUMENT_ROOT", self.root);
        text("DOCUMENT_URI", &self.name);
        text("SCRIPT_NAME", &self.name);
        text("SCRIPT_FILENAME", &format!("{}/{}", self.root, self.file));
        if !self.info.is_empty() {
            text("PATH_INFO", self.info);
            text("PATH_TRANSLATED", &format!("{}{}", self.root, self.info));
        }
        let connection = context.connection;
        text("SERVER_NAME", context.host.as_str());
        text("SERVER_ADDR", &connection.server.ip().to_string());
        text("SERVER_PORT", &connection.server.port().to_string());
        text("REMOTE_ADDR", &context.client.to_string());
        if connection.peer.ip() == context.client {
            text("REMOTE_PORT", &connection.peer.port().to_string());
        }
        if let Some(user) = self.user {
            text("AUTH_TYPE", "Basic");
            text("REMOTE_USER", user);
        }
        // PHP built for CGI answers only what a server passes on.
        text("REDIRECT_STATUS", "200");
        if let Some(length) = length {
            text("CONTENT_LENGTH", &length.to_string());
        }
        if let Some(kind) = fields.get(CONTENT_TYPE) {
            give(b"CONTENT_TYPE", kind.as_bytes());
        }
        of_fields(fields, give);
    }

    fn uri(&self) -> String {
        match self.query.is_empty() {
            true => self.path.to_owned(),
            false => format!("{}?{}", self.path, self.query),
        }
    }
}

/// Gives the parameters `HTTP_…`, one for each name. Names with other punctuation than `-`
/// were removed: two names can't become one.
fn of_fields(fields: &HeaderMap, mut give: impl FnMut(&[u8], &[u8])) {
    let mut name_of = Vec::with_capacity(64);
    for name in fields.keys() {
        if fields::is_hop_by_hop(name.as_str()) || OF_BODY.contains(name) {
            continue;
        }
        name_of.clear();
        name_of.extend_from_slice(b"HTTP_");
        let upper = name.as_str().bytes().map(|byte| match byte {
            b'-' => b'_',
            other => other.to_ascii_uppercase(),
        });
        name_of.extend(upper);
        let mut values = fields.get_all(name).iter();
        match (values.next(), values.next()) {
            (Some(only), None) => give(&name_of, only.as_bytes()),
            _ => {
                let all = fields::joined(fields, name, b", ");
                give(&name_of, all.as_ref().map_or(b"", HeaderValue::as_bytes));
            }
        }
    }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "HTTP/2.0",
        Version::HTTP_10 => "HTTP/1.0",
        _ => "HTTP/1.1",
    }
}

/// Fields that have parameters without `HTTP_`.
const OF_BODY: [HeaderName; 2] = [CONTENT_LENGTH, CONTENT_TYPE];
