//! Checks URLs of upstream servers.

use std::net::Ipv6Addr;
use std::path::{Component, Path};

use crate::site::error::{Checked, Wrong};
use crate::site::template::{HOST, TENANT};
use crate::site::upstream::{Address, Scheme, host_text};
use crate::site::value::number;

/// Kind of servers, by the URLs that they may have.
#[derive(Clone, Copy)]
pub(super) struct Kind {
    /// Schemes with their default ports.
    schemes: &'static [(&'static str, Scheme, u16)],
    /// Scheme of a Unix socket.
    of_unix: Scheme,
    /// Example of a list.
    pub(super) list: &'static str,
    examples: &'static str,
}

impl Kind {
    /// Servers of `upstream`.
    pub(super) const HTTP: Self = Self {
        schemes: &[
            ("http://", Scheme::Http, 80),
            ("https://", Scheme::Https, 443),
            ("h2c://", Scheme::H2c, 80),
        ],
        of_unix: Scheme::Unix,
        list: "[\"http://127.0.0.1:3000\"]",
        examples: "write \"http://127.0.0.1:3000\", \"https://app.example\", \
                   \"h2c://[::1]:50051\" or \"unix:/run/apps/a.sock\"",
    };
    /// Servers of `fastcgi`.
    pub(super) const FASTCGI: Self = Self {
        schemes: &[("fastcgi://", Scheme::FastCgi, 9000)],
        of_unix: Scheme::FastCgi,
        list: "[\"unix:/run/php/{tenant}.sock\"]",
        examples: "write \"unix:/run/php/{tenant}.sock\" or \"fastcgi://127.0.0.1:9000\"",
    };
}

/// Checks the URL of a server.
pub(super) fn parse(url: &str, kind: Kind) -> Checked<(Scheme, Address)> {
    if let Some(path) = url.strip_prefix("unix:") {
        return Ok((kind.of_unix, Address::Unix(socket(path)?)));
    }
    let mut known = kind.schemes.iter();
    let found = known.find_map(|(prefix, scheme, port)| {
        let authority = url.strip_prefix(prefix)?;
        Some((*scheme, authority, *port))
    });
    let (scheme, authority, port) = found
        .ok_or_else(|| Wrong::new(format!("{url:?} is no URL of a server; {}", kind.examples)))?;
    if authority.contains(['/', '?', '#']) {
        return Err(Wrong::new(format!(
            "{url:?} has more than a host and a port; leave that out (`add` puts a prefix before \
             each path)"
        )));
    }
    if authority.contains('@') {
        // The text may hold a password.
        let text = "a server's URL has no user; set `Authorization` in `request`";
        return Err(Wrong::new(text));
    }
    let address = host_and_port(authority, port);
    let address = address.ok_or_else(|| {
        Wrong::new(format!(
            "{url:?} has no host name or address, or no valid port; {}",
            kind.examples
        ))
    })?;
    Ok((scheme, address))
}

/// Reads `HOST`, `HOST:PORT`, `[IPV6]` or `[IPV6]:PORT`.
fn host_and_port(text: &str, default: u16) -> Option<Address> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, port) = rest.split_once(']')?;
            host.parse::<Ipv6Addr>().ok()?;
            let port = (!port.is_empty()).then(|| port.strip_prefix(':').unwrap_or_default());
            (host, port)
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port = port.map_or(Some(default), number)?;
    let host = match host.contains('{') {
        // Any name may stand for the placeholders: the rest is checked beside one.
        true => {
            host_text(&without_placeholders(host))?;
            host.into()
        }
        false => host_text(host)?,
    };
    (port > 0).then_some(Address::Tcp { host, port })
}

/// Returns a text with a letter for each placeholder.
fn without_placeholders(text: &str) -> String {
    text.replace(TENANT, "t").replace(HOST, "h")
}

fn socket(path: &str) -> Checked<Box<Path>> {
    let is_plain = |part: Component<'_>| matches!(part, Component::RootDir | Component::Normal(_));
    let parsed = Path::new(path);
    let collected: std::path::PathBuf = parsed.components().collect();
    // Linux's limit for the path of a socket is 108 bytes with a NUL behind it.
    let fits = path.len() < MAX_SOCKET && !path.contains('\0');
    let is_full = parsed.is_absolute() && parsed.components().count() > 1;
    if without_placeholders(path).contains(['{', '}']) {
        let text = format!("{path:?} has braces other than {HOST} and {TENANT}");
        return Err(Wrong::new(text));
    }
    if fits && is_full && parsed.components().all(is_plain) && collected.as_os_str() == path {
        return Ok(parsed.into());
    }
    Err(Wrong::new(format!(
        "{path:?} is no path of a socket; write it in full, such as \"unix:/run/apps/a.sock\""
    )))
}

const MAX_SOCKET: usize = 108;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_hosts_ports_and_sockets() {
        for (url, scheme, shown) in [
            ("http://127.0.0.1:3000", Scheme::Http, "127.0.0.1:3000"),
            ("http://App.Example", Scheme::Http, "app.example:80"),
            ("http://app_1:8080", Scheme::Http, "app_1:8080"),
            (
                "https://bücher.example",
                Scheme::Https,
                "xn--bcher-kva.example:443",
            ),
            ("https://[2001:DB8::1]", Scheme::Https, "[2001:db8::1]:443"),
            ("h2c://[::1]:50051", Scheme::H2c, "[::1]:50051"),
            ("http://[::ffff:10.0.0.1]:1", Scheme::Http, "10.0.0.1:1"),
            ("unix:/run/a.sock", Scheme::Unix, "unix:/run/a.sock"),
            (
                "unix:/run/{tenant}/{host}.sock",
                Scheme::Unix,
                "unix:/run/{tenant}/{host}.sock",
            ),
            (
                "http://{tenant}.apps.example:81",
                Scheme::Http,
                "{tenant}.apps.example:81",
            ),
        ] {
            let (found, address) =
                parse(url, Kind::HTTP).unwrap_or_else(|wrong| panic!("{url}: {wrong}"));
            assert_eq!(
                (found, address.to_string()),
                (scheme, shown.to_owned()),
                "{url}"
            );
        }
    }

    #[test]
    fn refuses_what_names_no_server() {
        let long = format!("unix:/{}", "a".repeat(107));
        let no_url = "is no URL of a server; write ";
        let too_much = "has more than a host and a port; leave that out";
        let no_host = "has no host name or address, or no valid port; write ";
        let no_socket = "is no path of a socket; write it in full";
        for (urls, why) in [
            (&["", "127.0.0.1:3000", "ftp://a", "HTTP://a"][..], no_url),
            (
                &["http://a/", "http://a/b", "http://a?b", "http://a#b"],
                too_much,
            ),
            (
                &["http://", "http://a b", "http://a\n", "http://*.a"],
                no_host,
            ),
            (&["http://a:", "http://a:0", "http://a:+80"], no_host),
            (&["http://a:65536", "http://a:80:80"], no_host),
            (&["http://::1", "http://[::1", "http://[::1]80"], no_host),
            (&["http://[::1]:", "http://[fe80::1%eth0]"], no_host),
            // Addresses to some resolvers.
            (&["http://127.1", "http://2130706433"], no_host),
            (&["http://0x7f000001", "http://127.0.0.0x1"], no_host),
            (
                &["unix:", "unix:a.sock", "unix:/", "unix:/run/../a"],
                no_socket,
            ),
            (
                &["unix:/run/./a", "unix://run/a", "unix:/run/a/"],
                no_socket,
            ),
            (&["unix:/run/a\0", &long], no_socket),
            (
                &["unix:/run/{user}.sock", "unix:/run/{tenant"],
                "has braces other than",
            ),
            (&["http://{user}.a", "http://{tenant}..a"], no_host),
            (&["fastcgi://a"], no_url),
            (&["http://me@a", "https://me:secret@a:1"], "has no user"),
        ] {
            for url in urls {
                let wrong = parse(url, Kind::HTTP).expect_err(url).to_string();
                assert!(wrong.contains(why), "{url:?}: {wrong}");
            }
        }
        let wrong = parse("http://me:c2VjcmV0@a", Kind::HTTP)
            .unwrap_err()
            .to_string();
        assert!(!wrong.contains("c2VjcmV0"), "{wrong}");
    }
}
