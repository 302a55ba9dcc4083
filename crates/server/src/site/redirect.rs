//! Redirect responses.

use std::net::IpAddr;

use http::header::{CACHE_CONTROL, LOCATION, X_CONTENT_TYPE_OPTIONS};
use http::uri::{Authority, PathAndQuery};
use http::{HeaderValue, Response, StatusCode, Uri};
use sekisho_certs::HostName;

use super::error::{Below, Checked, Wrong, checked};
use super::template::{HOST, Template};
use crate::site::body::{Body, NOSNIFF, plain};

/// Site that redirects every request.
#[derive(Clone, Debug)]
pub(crate) struct Redirect {
    target: Template,
    status: StatusCode,
    /// Whether the target has no path, so that the request's is appended.
    keeps_path: bool,
}

impl Redirect {
    /// Checks target and status.
    pub(super) fn parse(target: &str, status: Option<i64>) -> Checked<Self> {
        let status = checked("status", status, redirect_status)?;
        let (target, keeps_path) = parse_target(target).map_err(Wrong::new).below("redirect")?;
        Ok(Self {
            target,
            status: status.unwrap_or(StatusCode::PERMANENT_REDIRECT),
            keeps_path,
        })
    }

    /// Answers a request for `uri` of `host`.
    pub(crate) fn respond(&self, host: &HostName, uri: &Uri) -> Response<Body> {
        let target = self.target.fill(host.as_str());
        if self.keeps_path {
            let path = path_of(uri.path_and_query());
            redirect_to(self.status, &format!("{target}{path}"))
        } else {
            redirect_to(self.status, &target)
        }
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
        307 => Ok(StatusCode::TEMPORARY_REDIRECT),
        308 => Ok(StatusCode::PERMANENT_REDIRECT),
        _ => Err(Wrong::new(format!(
            "{status} does not redirect; write 301, 302, 307 or 308"
        ))),
    }
}

fn parse_target(text: &str) -> Result<(Template, bool), String> {
    let example = "such as \"https://www.example.com\"";
    let rest = ["https://", "http://"]
        .iter()
        .find_map(|scheme| text.strip_prefix(scheme))
        .ok_or_else(|| format!("{text:?} is no absolute http or https URL, {example}"))?;
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if authority == HOST {
        return Err(format!("{text:?} points each host at itself, without end"));
    }
    if !is_host_with_port(&authority.replace(HOST, "host")) {
        return Err(format!("{authority:?} is no host with an optional port"));
    }
    if text.bytes().any(|byte| !byte.is_ascii_graphic()) {
        return Err(format!(
            "{text:?} holds characters that a URL must percent-encode"
        ));
    }
    Ok((Template::parse(text, &[HOST])?, path.is_empty()))
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

const HTTPS_PORT: u16 = 443;

#[cfg(test)]
mod tests;
