//! Settings of a server. The configuration has checked the values.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use sekisho_certs::HostName;

use crate::limits::network::Networks;

/// Addresses and bounds of a server.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Addresses for TLS.
    pub https: Vec<SocketAddr>,
    /// Addresses for plain HTTP, whose requests are redirected to HTTPS.
    pub http: Vec<SocketAddr>,
    /// Answers requests over plain HTTP from the sites of hosts that say so. Only without a
    /// hook, which chooses by the ClientHello.
    pub plain: bool,
    /// The port of HTTPS in redirects from plain HTTP; without it, the port
    /// that the first address of `https` is bound to.
    pub public_port: Option<u16>,
    /// Peers that speak the PROXY protocol, on all these addresses.
    pub proxies: Networks,
    /// Peers whose `X-Forwarded-For`, `X-Forwarded-Proto`, `X-Forwarded-Host`,
    /// `Forwarded` and `X-Request-Id` are believed.
    pub trusted: Networks,
    /// Default hosts, for clients without SNI.
    pub defaults: Defaults,
    /// Bounds on time and number.
    pub limits: Limits,
    /// Recursive name servers that resolve the names of upstream servers; if
    /// empty, those of `/etc/resolv.conf`.
    pub name_servers: Vec<SocketAddr>,
    /// Connections to upstream servers open at once over all workers, unused ones
    /// included. Tenants share them.
    pub upstreams: usize,
    /// Bytes of bodies that all connections of HTTP/2 may hold together: those that came
    /// and were not taken. Above it, the connection that holds most is ended.
    pub bodies: usize,
}

/// Hosts that clients without SNI get.
#[derive(Clone, Debug, Default)]
pub struct Defaults {
    /// By listening address, as in [`Settings::https`].
    pub by_address: HashMap<SocketAddr, HostName>,
    /// For all other addresses.
    pub any: Option<HostName>,
}

impl Defaults {
    /// Returns the default of a listening address, else [`Self::any`].
    #[must_use]
    pub fn of(&self, local: SocketAddr) -> Option<&HostName> {
        self.by_address.get(&local).or(self.any.as_ref())
    }
}

/// Bounds on time and number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Threads that serve connections.
    pub workers: usize,
    /// Connections open at once over all listeners, divided among the workers; at
    /// most one more for each worker and address.
    pub connections: usize,
    /// From accepting to the end of the TLS handshake, lookup included; also
    /// for the lookup of another host that a request names. Where a certificate
    /// is waited for, [`CertificateWaits::time`] takes its place.
    pub handshake: Duration,
    /// For a request's whole head.
    pub head: Duration,
    /// Between two requests of a connection.
    pub idle: Duration,
    /// Without any progress on a request's or an answer's body.
    pub body: Duration,
    /// From the start of a drain to its end; also from the decision to end a connection
    /// to its end.
    pub drain: Duration,
    /// Between two looks at the host of an upgraded connection, or of an upstream's
    /// answer that goes on: [`Limits::HOST_LOOK`] outside tests.
    pub host_look: Duration,
    /// Lookups without result, of names and of challenges, that the clients of one
    /// prefix (/24 or /56) may cause per minute. Over the budget, lookups of uncached
    /// names wait or are refused.
    pub absent_per_prefix: usize,
    /// Store loads in flight at once.
    pub loads: usize,
    /// Store loads in flight for the clients of one prefix while others wait.
    pub loads_per_prefix: usize,
    /// Lookups that wait for a load permit. When full, the newest of the prefix
    /// with most of them is refused.
    pub loads_waiting: usize,
    /// Lookups that wait until a certificate is obtained.
    pub certificates: CertificateWaits,
}

impl Limits {
    /// A look may cost a call of the store, where the host is not cached.
    pub const HOST_LOOK: Duration = Duration::from_mins(1);
}

/// Bounds on lookups that wait until a certificate is obtained. They hold no
/// permit of [`Limits::loads`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CertificateWaits {
    /// Lookups that wait at once. When full, the newest of the tenant with most
    /// of them is refused.
    pub waiting: usize,
    /// From the beginning of the wait to the end of the TLS handshake, or of a
    /// request's lookup; takes the place of [`Limits::handshake`].
    pub time: Duration,
}

impl Default for CertificateWaits {
    fn default() -> Self {
        Self {
            waiting: 1000,
            time: Duration::from_secs(20),
        }
    }
}
