//! The URL of an endpoint, with a gap for the name.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::Uri;

use sekisho_certs::host::HostPattern;

/// `https://…/{host}`: where the bundle of a host is asked for. `{host}`
/// stands in path or query, at least once.
///
/// Logs show a template as it was written, so it holds no password: a user before
/// the address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    /// Scheme and authority, without a slash at the end.
    origin: String,
    tls: bool,
    /// A name or an address, without brackets.
    host: String,
    /// The text around the gaps of path and query: at least two pieces.
    pieces: Vec<String>,
}

impl Template {
    /// Whether certificates are verified; if not, it is a loopback address.
    pub(super) fn is_tls(&self) -> bool {
        self.tls
    }

    pub(super) fn host(&self) -> &str {
        &self.host
    }

    /// Path and query for a host, a wildcard being `_.example.com`. Percent-
    /// encoding changes nothing about a name: all of its characters are
    /// unreserved (RFC 3986, section 2.3), so none ends a line or a segment.
    fn path(&self, host: &HostPattern) -> String {
        match host.wildcard_parent() {
            None => self.pieces.join(host.as_str()),
            Some(parent) => self.pieces.join(&format!("_.{parent}")),
        }
    }

    /// The whole URL for a host.
    pub(super) fn url(&self, host: &HostPattern) -> String {
        self.origin.clone() + &self.path(host)
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.origin, self.pieces.join(GAP))
    }
}

impl FromStr for Template {
    /// What is wrong, in words for the one who wrote it; never a password.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("is no URL")?;
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        // Anywhere: behind a slash it may be the end of a password, too.
        if rest.contains('@') {
            return Err(
                "must hold no user and no password, and no '@'; write a token into a \
                        file and token = \"file:PATH\" into [store]"
                    .into(),
            );
        }
        if authority.contains(['{', '}']) {
            return Err(format!(
                "{GAP} must not stand in {authority:?}: whoever names a host would choose the server"
            ));
        }
        let pieces: Vec<_> = path.split(GAP).map(str::to_owned).collect();
        check_path(path, &pieces)?;
        let origin = format!("{scheme}://{authority}");
        let uri: Uri = origin
            .parse()
            .map_err(|error| format!("{origin:?} is no origin of a URL: {error}"))?;
        let host = uri.host().unwrap_or_default();
        let host = host.trim_start_matches('[').trim_end_matches(']');
        if host.is_empty() {
            return Err("names no server".into());
        }
        check_port(&uri, authority)?;
        Ok(Self {
            host: host.to_owned(),
            tls: encrypted(scheme, host)?,
            origin,
            pieces,
        })
    }
}

fn check_path(path: &str, pieces: &[String]) -> Result<(), String> {
    if pieces.len() < 2 {
        return Err(format!(
            "has no place for the name; write {GAP}, as in https://certs.example/{GAP}"
        ));
    }
    if pieces.iter().any(|piece| piece.contains(['{', '}'])) {
        return Err(format!("only {GAP} may stand in braces"));
    }
    if path.contains('#') {
        return Err("must hold no '#': a fragment is never sent".into());
    }
    let is_sendable = path.starts_with('/')
        && pieces
            .join("host")
            .parse::<http::uri::PathAndQuery>()
            .is_ok();
    if !is_sendable || !path.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(format!(
            "{path:?} is no path: it begins with '/', and other characters than those of a URL \
             are percent-encoded"
        ));
    }
    Ok(())
}

fn encrypted(scheme: &str, host: &str) -> Result<bool, String> {
    match scheme {
        "https" => Ok(true),
        "http" if host.parse().is_ok_and(|host: IpAddr| host.is_loopback()) => Ok(false),
        "http" => Err(format!(
            "private keys travel in the clear to {host}; write https://, or http:// with a \
             loopback address such as 127.0.0.1"
        )),
        _ => Err(format!("{scheme}:// is neither https:// nor http://")),
    }
}

fn check_port(uri: &Uri, authority: &str) -> Result<(), String> {
    match (uri.port_u16(), authority.rsplit_once(':')) {
        (Some(0), _) => Err("port 0 is no port".into()),
        // Behind the last colon of an IPv6 address stands its bracket.
        (None, Some((_, text))) if !text.ends_with(']') => Err(format!("{text:?} is no port")),
        _ => Ok(()),
    }
}

const GAP: &str = "{host}";

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> HostPattern {
        HostPattern::parse(name).unwrap()
    }

    #[test]
    fn the_name_stands_in_path_or_query() {
        for (text, exact, server) in [
            (
                "https://certs.example/{host}",
                "https://certs.example/a.b",
                "certs.example",
            ),
            (
                "https://certs.example:8443/v1/{host}.pem?for={host}&x=1",
                "https://certs.example:8443/v1/a.b.pem?for=a.b&x=1",
                "certs.example",
            ),
            (
                "http://127.0.0.1/c?h={host}",
                "http://127.0.0.1/c?h=a.b",
                "127.0.0.1",
            ),
            ("http://[::1]:81/{host}", "http://[::1]:81/a.b", "::1"),
            (
                "https://[2001:db8::1]/{host}",
                "https://[2001:db8::1]/a.b",
                "2001:db8::1",
            ),
        ] {
            let template: Template = text.parse().unwrap();
            assert_eq!(template.to_string(), text);
            assert_eq!(template.url(&host("a.b")), exact);
            assert_eq!(template.host(), server);
            assert_eq!(template.is_tls(), text.starts_with("https"));
        }
    }

    #[test]
    fn a_wildcard_is_asked_for_by_an_underscore() {
        let template: Template = "https://c.example/{host}".parse().unwrap();
        assert_eq!(template.path(&host("*.a.b")), "/_.a.b");
    }

    /// A name is sent as it is: none of its characters ends the path, the line or
    /// the request.
    #[test]
    fn no_name_leaves_its_place() {
        let template: Template = "https://c.example/x/{host}?n={host}".parse().unwrap();
        for byte in 0..=u8::MAX {
            let text = format!("a{}b.example", char::from(byte));
            let Ok(host) = HostPattern::parse(&text) else {
                continue;
            };
            let path = template.path(&host);
            let rest = path.replace(host.as_str(), "");
            assert_eq!(rest, "/x/?n=", "{path}");
            let plain = |c: char| c.is_ascii_alphanumeric() || "-_./?=".contains(c);
            assert!(path.chars().all(plain), "{path}");
        }
        for bad in [
            "a\r\nX: y",
            "a/../b",
            "a?b",
            "a#b",
            "a%0d",
            "a b",
            "a@b",
            "..",
        ] {
            assert!(HostPattern::parse(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn bad_urls_are_refused() {
        for (text, says) in [
            ("certs.example/{host}", "no URL"),
            ("https://certs.example/", "no place for the name"),
            ("https://certs.example", "no place for the name"),
            ("https://{host}/cert", "would choose the server"),
            ("https://certs.{host}/{host}", "would choose the server"),
            ("https://certs.example/{name}/{host}", "only {host}"),
            ("https://certs.example/{host}#a", "'#'"),
            ("https://certs.example/{host} b", "no path"),
            ("https://certs.example/ä/{host}", "no path"),
            ("https://certs.example?{host}", "no path"),
            ("https:///{host}", "no origin"),
            ("https://certs.example:0/{host}", "no port"),
            ("https://certs.example:99999/{host}", "no port"),
            ("https://certs.example:/{host}", "no port"),
            ("http://certs.example/{host}", "in the clear"),
            ("http://localhost/{host}", "in the clear"),
            ("http://192.0.2.1/{host}", "in the clear"),
            ("ftp://certs.example/{host}", "neither"),
        ] {
            let error = text.parse::<Template>().unwrap_err();
            assert!(error.contains(says), "{text}: {error}");
        }
        let error = "https://me:secret@c.example/{host}".parse::<Template>();
        let error = error.unwrap_err();
        assert!(error.contains("[store]") && !error.contains("secret"));
    }
}
