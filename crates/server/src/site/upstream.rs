//! Upstream of a site: the servers that requests are passed on to, and how.

mod address;

use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::RangeInclusive;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use http::HeaderValue;
use sekisho_certs::{HostName, Tenant};

use super::error::{Checked, Wrong};
use super::template::{HOST, TENANT, is_folder_name};
pub(crate) use address::Address;
pub(super) use address::host_text;

/// Servers that requests of a rule are passed on to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Upstream {
    /// Servers, 1 to [`MAX_SERVERS`], all of one scheme; 0 for scripts that are never run.
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

    /// Replaces `{tenant}` in the servers' addresses.
    ///
    /// # Errors
    /// If the tenant's name can be no part of such an address.
    pub(super) fn of_tenant(&self, tenant: &Tenant) -> Checked<Self> {
        let name = tenant.as_str();
        let filled = is_folder_name(name).then(|| self.fill(TENANT, name));
        let problem = match filled {
            Some(Some(filled)) => return Ok(filled),
            Some(None) => "part of a host",
            None => "name of the characters A-Z a-z 0-9 _ . -",
        };
        Err(Wrong::new(format!(
            "{TENANT} stands for {name:?} here, which is no {problem}"
        )))
    }

    /// Replaces `{host}` in the servers' addresses. None if they have none.
    pub(crate) fn of_host(&self, host: &HostName) -> Option<Self> {
        // A name of 253 letters may be longer with what stands beside it: no server has it.
        self.has(HOST).then(|| {
            let nowhere = || Self {
                servers: Box::default(),
                ..self.clone()
            };
            self.fill(HOST, host.as_str()).unwrap_or_else(nowhere)
        })
    }

    /// Returns whether a placeholder stands in an address of the servers.
    pub(super) fn has(&self, placeholder: &str) -> bool {
        let mut servers = self.servers.iter();
        servers.any(|server| server.address.text().contains(placeholder))
    }

    fn fill(&self, placeholder: &str, value: &str) -> Option<Self> {
        let servers = self.servers.iter().map(|server| {
            let address = server.address.fill(placeholder, value)?;
            Some(UpstreamServer { address, ..*server })
        });
        Some(Self {
            servers: servers.collect::<Option<_>>()?,
            ..self.clone()
        })
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
    /// `fastcgi://`, and `unix:/path` in `fastcgi`.
    FastCgi,
}

/// Options of an upstream. Its servers are known apart for each set of them.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UpstreamOptions {
    /// Protocol that the servers speak.
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
    /// Most unused connections to a FastCGI server that are kept, of all workers together.
    pub(crate) keep: u32,
}

impl UpstreamOptions {
    /// Returns the defaults of a scheme.
    pub(crate) fn of_scheme(scheme: Scheme) -> &'static Self {
        match scheme {
            Scheme::Http | Scheme::Unix => &PLAIN,
            Scheme::H2c => &H2C,
            Scheme::Https => &TLS,
            Scheme::FastCgi => &FASTCGI,
        }
    }

    /// Returns the options of what runs a CGI program. Its streams of events end as other
    /// answers do.
    pub(crate) fn of_programs() -> &'static Self {
        &PROGRAMS
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
            keep: 0,
        }
    }
}

/// Protocol towards an upstream: a version of HTTP, or FastCGI.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Protocol {
    /// HTTP/1.1.
    Http1,
    /// HTTP/2: by ALPN alone over TLS, by prior knowledge without.
    Http2,
    /// HTTP/2 or HTTP/1.1, as the server chooses by ALPN. Only with TLS.
    Negotiated,
    /// FastCGI.
    FastCgi,
}

impl Protocol {
    /// Returns whether several requests may share a connection.
    pub(crate) fn may_share(self) -> bool {
        match self {
            Self::Http2 | Self::Negotiated => true,
            Self::Http1 | Self::FastCgi => false,
        }
    }
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
static FASTCGI: UpstreamOptions = UpstreamOptions::with(Protocol::FastCgi);
static PROGRAMS: UpstreamOptions = {
    let mut options = UpstreamOptions::with(Protocol::FastCgi);
    options.timeouts.upgraded = options.timeouts.idle;
    options
};
static TLS: LazyLock<UpstreamOptions> = LazyLock::new(|| UpstreamOptions {
    tls: Some(Arc::default()),
    ..UpstreamOptions::with(Protocol::Negotiated)
});

/// Bytes at the end of the CAs' text that are hashed.
const HASHED: usize = 64;

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn options_default_by_scheme() {
        for (scheme, protocol, is_tls) in [
            (Scheme::Http, Protocol::Http1, false),
            (Scheme::Unix, Protocol::Http1, false),
            (Scheme::H2c, Protocol::Http2, false),
            (Scheme::Https, Protocol::Negotiated, true),
            (Scheme::FastCgi, Protocol::FastCgi, false),
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
    fn placeholders_are_filled_with_names_alone() {
        let upstream = |address: Address| Upstream {
            servers: [UpstreamServer { address, weight: 1 }].into(),
            scheme: Scheme::FastCgi,
            is_bound: true,
            options: None,
        };
        let unix = upstream(Address::Unix(Path::new("/run/{tenant}/{host}.sock").into()));
        let tcp = upstream(Address::Tcp {
            host: "{tenant}.php.example".into(),
            port: 9000,
        });
        let host = HostName::parse("a.example").unwrap();
        for (name, socket, server) in [
            (
                "acme",
                Some("unix:/run/acme/a.example.sock"),
                Some("acme.php.example:9000"),
            ),
            (
                "Acme",
                Some("unix:/run/Acme/a.example.sock"),
                Some("acme.php.example:9000"),
            ),
            ("a.", Some("unix:/run/a./a.example.sock"), None),
            ("..", None, None),
            ("", None, None),
            ("a/b", None, None),
        ] {
            let tenant = Tenant::parse(name).unwrap();
            let shown = |upstream: &Upstream| {
                let filled = upstream.of_tenant(&tenant).ok()?;
                let filled = filled.of_host(&host).unwrap_or(filled);
                Some(filled.to_string())
            };
            assert_eq!(shown(&unix).as_deref(), socket, "{name}");
            assert_eq!(shown(&tcp).as_deref(), server, "{name}");
        }
        let plain = upstream(Address::Unix(Path::new("/run/a.sock").into()));
        assert!(!plain.has(TENANT) && unix.has(TENANT) && tcp.has(TENANT));
        assert_eq!(plain.of_host(&host), None);
    }
}
