//! Redirect responses.

use std::borrow::Cow;
use std::net::IpAddr;

use http::header::{CACHE_CONTROL, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Response, StatusCode, Uri};
use sekisho_certs::HostName;

use super::error::{Below, Checked, Wrong, checked};
use super::path::SitePath;
use super::template::{HOST, Template};
use crate::site::body::{Body, NOSNIFF, plain};

/// Redirect of each request of a rule.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    /// URL, or a path with a slash first; without `{rest}`.
    target: Template,
    tail: Tail,
    status: StatusCode,
}

/// Part of a request that is appended to the target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Tail {
    /// Nothing: the target has a path.
    None,
    /// Path and query: the target has no path.
    PathAndQuery,
    /// `{rest}`: the path after the rule's own, and the query.
    Rest,
}

impl Redirect {
    /// Checks target and status.
    pub(super) fn parse(target: &str, status: Option<i64>) -> Checked<Self> {
        let redirect = Self::to(target).below("redirect")?;
        let status = checked("status", status, redirect_status)?;
        let status = status.unwrap_or(redirect.status);
        Ok(Self { status, ..redirect })
    }

    /// Checks an absolute URL, or a path of the same host, at the end of whose path `{rest}` may
    /// stand.
    pub(super) fn to(text: &str) -> Checked<Self> {
        let before = text.strip_suffix(REST);
        let target = before.unwrap_or(text);
        if target.contains(REST) || before.is_some() && target.contains(['?', '#']) {
            return Err(Wrong::new(REST_PLACE));
        }
        let (target, tail) = parse_target(target).map_err(Wrong::new)?;
        if before.is_some() && target.text.ends_with('/') {
            let text = "{rest} begins with a slash; leave out the one before it";
            return Err(Wrong::new(text));
        }
        Ok(Self {
            target,
            tail: before.map_or(tail, |_| Tail::Rest),
            status: StatusCode::PERMANENT_REDIRECT,
        })
    }

    /// Answers a request of `host` for `uri`, whose `path` a rule with this prefix matched.
    pub(crate) fn respond(
        &self,
        host: &HostName,
        uri: &Uri,
        (path, prefix): (&SitePath<'_>, &str),
    ) -> Response<Body> {
        let target = self.target.fill(host.as_str());
        let rest: Cow<'_, str> = match self.tail {
            Tail::None => "".into(),
            Tail::PathAndQuery => path_of(uri.path_and_query()).into(),
            Tail::Rest => {
                let query = uri.query().map(|query| format!("?{query}"));
                // Begins with a slash or is empty: it can't become a part of the host's name.
                format!("{}{}", path.rest(prefix), query.unwrap_or_default()).into()
            }
        };
        redirect_to(self.status, &format!("{target}{rest}"))
    }

    /// Returns the bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        self.target.weight()
    }
}

/// Redirects plain HTTP to the same path and query over HTTPS. Status 308 keeps
/// methods other than GET.
pub(crate) fn to_https(
    host: &HostName,
    port: u16,
    path_and_query: Option<&PathAndQuery>,
) -> Response<Body> {
    let path = path_of(path_and_query);
    let location = if port == HTTPS_PORT {
        format!("https://{host}{path}")
    } else {
        format!("https://{host}:{port}{path}")
    };
    let mut response = redirect_to(StatusCode::PERMANENT_REDIRECT, &location);
    // Browsers cache a 308 indefinitely (RFC 9110, section 15.4.9), and the
    // port may change.
    let no_store = HeaderValue::from_static("no-store");
    response.headers_mut().insert(CACHE_CONTROL, no_store);
    response
}

/// Makes a redirect without content. Only a request's path can make `location`
/// invalid as a header, which is the client's error: 400.
pub(crate) fn redirect_to(status: StatusCode, location: &str) -> Response<Body> {
    let Ok(location) = HeaderValue::from_str(location) else {
        return plain(StatusCode::BAD_REQUEST);
    };
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(LOCATION, location);
    headers.insert(X_CONTENT_TYPE_OPTIONS, NOSNIFF);
    response
}

/// Returns the target's path and query, "/" for `OPTIONS *`: a `*` after an
/// authority would become part of the name.
fn path_of(path_and_query: Option<&PathAndQuery>) -> &str {
    path_and_query
        .map(PathAndQuery::as_str)
        .filter(|path| path.starts_with('/'))
        .unwrap_or("/")
}

fn redirect_status(status: i64) -> Checked<StatusCode> {
    match status {
        301 => Ok(StatusCode::MOVED_PERMANENTLY),
        302 => Ok(StatusCode::FOUND),
        303 => Ok(StatusCode::SEE_OTHER),
        307 => Ok(StatusCode::TEMPORARY_REDIRECT),
        308 => Ok(StatusCode::PERMANENT_REDIRECT),
        _ => Err(Wrong::new(format!(
            "{status} does not redirect; write 301, 302, 303, 307 or 308"
        ))),
    }
}

/// Checks an absolute URL, or a path. Returns it, and what it keeps of a request.
fn parse_target(text: &str) -> Result<(Template, Tail), String> {
    let scheme = SCHEMES.iter().find(|scheme| text.starts_with(**scheme));
    let Some(rest) = scheme.map(|scheme| &text[scheme.len()..]) else {
        // A browser would take `//b` and `/\b` for the host `b`.
        if !text.starts_with('/') || text.starts_with("//") || text.contains('\\') {
            return Err(format!(
                "{text:?} is no absolute http or https URL and no path; write \
                 \"https://www.example.com/new\" or \"/new\""
            ));
        }
        return Ok((Template::parse(encoded(text)?, &[HOST])?, Tail::None));
    };
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority == HOST && !path.starts_with('/') {
        return Err(format!("{text:?} points each host at itself, without end"));
    }
    if !is_host_with_port(&authority.replace(HOST, "host")) {
        return Err(format!("{authority:?} is no host with an optional port"));
    }
    let tail = match path {
        "" => Tail::PathAndQuery,
        _ => Tail::None,
    };
    Ok((Template::parse(encoded(text)?, &[HOST])?, tail))
}

/// Refuses a text with characters that no URL has.
fn encoded(text: &str) -> Result<&str, String> {
    match text.bytes().all(|byte| byte.is_ascii_graphic()) {
        true => Ok(text),
        false => Err(format!(
            "{text:?} holds characters that a URL must percent-encode"
        )),
    }
}

fn is_host_with_port(text: &str) -> bool {
    let Ok(authority) = text.parse::<Authority>() else {
        return false;
    };
    let host = authority.host();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    let port = text.strip_prefix(host);
    let port = port.is_some_and(|port| port.is_empty() || authority.port_u16().is_some());
    port && (address.is_ok() || HostName::parse(host).is_ok())
}

/// Returns whether a `redirect` was an error before format 3.
pub(super) fn is_later(target: &str) -> bool {
    target.starts_with('/') || [REST, "://{host}/"].iter().any(|it| target.contains(it))
}

/// Placeholder of the path after the rule's own.
const REST: &str = "{rest}";
const REST_PLACE: &str = "{rest} stands once, and behind the host, at the end of the path";
const SCHEMES: [&str; 2] = ["https://", "http://"];
const HTTPS_PORT: u16 = 443;

#[cfg(test)]
mod tests;
