//! Upstream of a site: the servers that requests are passed on to, and how.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::net::Ipv6Addr;
use std::ops::RangeInclusive;
use std::path::Path;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::HeaderValue;
use sekisho_certs::HostName;

/// Servers that requests of a rule are passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Servers, 1 to [`MAX_SERVERS`], all of one scheme.
    pub(crate) servers: Box<[UpstreamServer]>,
    /// Scheme of all servers, which says the options' defaults.
    pub(crate) scheme: Scheme,
    /// Whether `[sites] allow` bounds the servers: not in `[site]`, which the
    /// operator wrote.
    pub(crate) is_bound: bool,
    /// Options; none if all have their defaults. A cached host with a plain
    /// upstream therefore takes no more than its servers.
    pub(crate) options: Option<Box<UpstreamOptions>>,
}

impl Upstream {
    /// Returns the options, with defaults where the document had none.
    pub(crate) fn options(&self) -> &UpstreamOptions {
        match &self.options {
            Some(options) => options,
            None => UpstreamOptions::of_scheme(self.scheme),
        }
    }
}

impl fmt::Display for Upstream {
    /// Shows the addresses of the servers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, server) in self.servers.iter().enumerate() {
            let before = if index == 0 { "" } else { ", " };
            write!(f, "{before}{}", server.address)?;
        }
        Ok(())
    }
}

/// Server of an upstream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct UpstreamServer {
    /// Where it listens.
    pub(crate) address: Address,
    /// Share of requests beside the other servers, 1 to [`MAX_WEIGHT`].
    pub(crate) weight: u16,
}

/// Address of an upstream server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Address {
    /// A host with a port.
    Tcp {
        /// Name in lower case without a dot at its end, or the canonical text
        /// of an IP address. IPv6 addresses have no brackets.
        host: Box<str>,
        /// Port, never 0.
        port: u16,
    },
    /// A Unix socket, by its absolute path without `.` and `..`.
    Unix(Box<Path>),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port } if host.parse::<Ipv6Addr>().is_ok() => {
                write!(f, "[{host}]:{port}")
            }
            Self::Tcp { host, port } => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// Scheme of an upstream's URLs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scheme {
    /// `http://`: plain HTTP/1.1.
    Http,
    /// `h2c://`: plain HTTP/2 by prior knowledge.
    H2c,
    /// `https://`: TLS.
    Https,
    /// `unix:/path`: plain HTTP over a Unix socket.
    Unix,
}

/// Options of an upstream. Its servers are known apart for each set of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamOptions {
    /// Version of HTTP that the servers speak.
    pub(crate) protocol: Protocol,
    /// TLS towards the servers; always there for [`Scheme::Https`], never for
    /// others.
    pub(crate) tls: Option<Arc<UpstreamTls>>,
    /// `Host` to send instead of the client's.
    pub(crate) host: Option<HeaderValue>,
    /// How a server is chosen.
    pub(crate) balance: Balance,
    /// Active check of each server; none by default.
    pub(crate) check: Option<ActiveCheck>,
    /// Longest waits.
    pub(crate) timeouts: UpstreamTimeouts,
    /// Version of the PROXY protocol that each connection begins with. Each
    /// client connection then has an upstream connection of its own.
    pub(crate) proxy_protocol: Option<ProxyVersion>,
    /// Whether `Forwarded` (RFC 7239) is sent beside `X-Forwarded-*`.
    pub(crate) forwarded: bool,
    /// Whether request fields with `_` in their names are passed on.
    pub(crate) underscores: bool,
    /// Most connections to one server.
    pub(crate) connections: u32,
    /// Most requests that wait for a connection to one server.
    pub(crate) waiting: u32,
}

impl UpstreamOptions {
    /// Returns the defaults of a scheme.
    pub(crate) fn of_scheme(scheme: Scheme) -> &'static Self {
        match scheme {
            Scheme::Http | Scheme::Unix => &PLAIN,
            Scheme::H2c => &H2C,
            Scheme::Https => &TLS,
        }
    }

    const fn with(protocol: Protocol) -> Self {
        Self {
            protocol,
            tls: None,
            host: None,
            balance: Balance::LeastInFlight,
            check: None,
            timeouts: UpstreamTimeouts::DEFAULT,
            proxy_protocol: None,
            forwarded: false,
            underscores: false,
            connections: DEFAULT_CONNECTIONS,
            waiting: DEFAULT_WAITING,
        }
    }
}

/// Version of HTTP towards an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN alone over TLS, by prior knowledge without.
    Http2,
    /// HTTP/2 or HTTP/1.1, as the server chooses by ALPN. Only with TLS.
    Negotiated,
}

/// TLS towards an upstream. Connections of different values are never shared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct UpstreamTls {
    /// Server name to send and to verify; by default the server's host.
    pub(crate) name: Option<Box<str>>,
    /// PEM certificates of the CAs that alone are trusted; by default the
    /// system's.
    pub(crate) ca: Option<Box<str>>,
    /// Host whose credential is the client certificate. Its record must have
    /// the same tenant.
    pub(crate) certificate_of: Option<HostName>,
}

impl Hash for UpstreamTls {
    fn hash<H: Hasher>(&self, state: &mut H) {
        // Not the whole text of the CAs, for each request.
        let ca = self.ca.as_deref().unwrap_or_default().as_bytes();
        let end = &ca[ca.len().saturating_sub(HASHED)..];
        (&self.name, ca.len(), end, &self.certificate_of).hash(state);
    }
}

/// How a server of an upstream is chosen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Balance {
    /// The one with fewer requests in flight of two at random, by weight.
    LeastInFlight,
    /// By the client's address: a client keeps its server while that is
    /// healthy.
    ClientAddress,
    /// By a cookie of this name, which the application sets.
    Cookie(Box<str>),
}

/// Requests that tell whether a server is healthy.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ActiveCheck {
    /// Path and query of the request.
    pub(crate) path: Box<str>,
    /// Time between two requests.
    pub(crate) interval: Duration,
    /// Longest wait for the answer.
    pub(crate) timeout: Duration,
    /// Statuses of a healthy server.
    pub(crate) status: RangeInclusive<u16>,
}

/// Longest waits for an upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamTimeouts {
    /// Longest time until there is a connection, with its TLS handshake.
    pub(crate) connect: Duration,
    /// Longest time until the head of the answer, counted anew while the request's
    /// body moves.
    pub(crate) first_byte: Duration,
    /// Longest time without a byte of a body, and of a connection without use.
    pub(crate) idle: Duration,
    /// Longest time without a byte on an upgraded connection, or in a stream of events.
    pub(crate) upgraded: Duration,
}

impl UpstreamTimeouts {
    /// Defaults of the document.
    pub(crate) const DEFAULT: Self = Self {
        connect: Duration::from_secs(5),
        first_byte: Duration::from_secs(60),
        idle: Duration::from_secs(60),
        upgraded: Duration::from_hours(1),
    };
}

/// Version of the PROXY protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProxyVersion {
    /// The line of text.
    V1,
    /// The binary header.
    V2,
}

/// Servers of one upstream.
pub(crate) const MAX_SERVERS: usize = 32;
/// Largest weight of a server.
pub(crate) const MAX_WEIGHT: u16 = 1000;
/// Each WebSocket and stream of events holds a connection.
const DEFAULT_CONNECTIONS: u32 = 1024;
const DEFAULT_WAITING: u32 = 256;

static PLAIN: UpstreamOptions = UpstreamOptions::with(Protocol::Http1);
static H2C: UpstreamOptions = UpstreamOptions::with(Protocol::Http2);
static TLS: LazyLock<UpstreamOptions> = LazyLock::new(|| UpstreamOptions {
    tls: Some(Arc::default()),
    ..UpstreamOptions::with(Protocol::Negotiated)
});

/// Bytes at the end of the CAs' text that are hashed.
const HASHED: usize = 64;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_default_by_scheme() {
        for (scheme, protocol, is_tls) in [
            (Scheme::Http, Protocol::Http1, false),
            (Scheme::Unix, Protocol::Http1, false),
            (Scheme::H2c, Protocol::Http2, false),
            (Scheme::Https, Protocol::Negotiated, true),
        ] {
            let upstream = Upstream {
                servers: Box::default(),
                scheme,
                is_bound: true,
                options: None,
            };
            let options = upstream.options();
            assert_eq!(options.protocol, protocol, "{scheme:?}");
            assert_eq!(options.tls.is_some(), is_tls, "{scheme:?}");
            assert_eq!(options.timeouts.connect, Duration::from_secs(5));
        }
    }

    #[test]
    fn an_address_is_shown_as_it_is_written() {
        let tcp = |host: &str| Address::Tcp {
            host: host.into(),
            port: 80,
        };
        assert_eq!(tcp("a.example").to_string(), "a.example:80");
        assert_eq!(tcp("127.0.0.1").to_string(), "127.0.0.1:80");
        assert_eq!(tcp("::1").to_string(), "[::1]:80");
        let unix = Address::Unix(Path::new("/run/a.sock").into());
        assert_eq!(unix.to_string(), "unix:/run/a.sock");
    }
}
