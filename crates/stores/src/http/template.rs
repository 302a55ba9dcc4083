//! The URL of an endpoint, with a place for the name.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

use http::uri::{Authority, PathAndQuery};
use sekisho_certs::host::HostPattern;

use crate::template::{HOST, HostTemplate, segment};

/// `https://…/{host}`: where the bundle of a host is asked for. `{host}`
/// stands in path or query, at least once.
///
/// Logs show a template as it was written, so it holds no password: a user before
/// the address is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Template {
    url: HostTemplate,
    /// True if certificates are verified; if not, `host` is a loopback address.
    pub(super) is_tls: bool,
    /// A name or an address, without brackets.
    pub(crate) host: String,
    pub(crate) port: u16,
}

impl Template {
    /// The whole URL for a host, a wildcard being `_.example.com`.
    pub(super) fn url(&self, host: &HostPattern) -> String {
        self.url.fill(&segment(host))
    }
}

impl fmt::Display for Template {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.url.fmt(f)
    }
}

impl FromStr for Template {
    /// The problem, in words for the one who wrote it; never a password.
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (scheme, rest) = text.split_once("://").ok_or("is no URL")?;
        // Anywhere: behind a slash it may be the end of a password, too.
        if rest.contains('@') {
            return Err(
                "must hold no user and no password, and no '@'; write a token into a \
                        file and token = \"file:PATH\" into [store]"
                    .into(),
            );
        }
        let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
        let (server, path) = rest.split_at(end);
        if server.contains(['{', '}']) {
            return Err(format!(
                "{HOST} must not stand in {server:?}: whoever names a host would choose the server"
            ));
        }
        let url = HostTemplate::parse_strict(text)
            .map_err(|why| format!("{why}, as in https://certs.example/{HOST}"))?;
        let is_path = path.starts_with('/')
            && path.replace(HOST, "host").parse::<PathAndQuery>().is_ok()
            && path
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && byte != b'#');
        if !is_path {
            return Err(format!(
                "{path:?} is no path: it begins with '/', holds no '#', and other characters \
                 than those of a URL are percent-encoded"
            ));
        }
        let (host, port) = address(server).ok_or_else(|| {
            format!("{server:?} is no server: it is HOST or HOST:PORT, an IPv6 one in brackets")
        })?;
        let is_tls = is_encrypted(scheme, &host)?;
        Ok(Self {
            port: port.unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            host,
            url,
        })
    }
}

/// Takes the host of an authority, without brackets, and its port.
fn address(authority: &str) -> Option<(String, Option<u16>)> {
    let authority: Authority = authority.parse().ok()?;
    let (host, port) = (authority.host(), authority.port_u16());
    let is_whole = port.is_some_and(|port| port != 0) || host == authority.as_str();
    let host = host.trim_matches(['[', ']']);
    (is_whole && !host.is_empty()).then(|| (host.to_owned(), port))
}

fn is_encrypted(scheme: &str, host: &str) -> Result<bool, String> {
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
            assert_eq!(template.host, server);
            assert_eq!(template.is_tls, text.starts_with("https"));
        }
    }

    #[test]
    fn a_wildcard_is_asked_for_by_an_underscore() {
        let template: Template = "https://c.example/{host}".parse().unwrap();
        assert_eq!(template.url(&host("*.a.b")), "https://c.example/_.a.b");
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
            let url = template.url(&host);
            let path = url.strip_prefix("https://c.example").unwrap();
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
            ("https:///{host}", "no server"),
            ("https://certs.example:0/{host}", "HOST:PORT"),
            ("https://certs.example:99999/{host}", "HOST:PORT"),
            ("https://certs.example:/{host}", "HOST:PORT"),
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
