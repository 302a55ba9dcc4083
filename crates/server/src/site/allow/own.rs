//! Addresses of the server itself and of those that it connects to for itself, which no
//! upstream of a host record may have.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::fs::Metadata;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};

use sekisho_certs::lock;
use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use super::target::unmapped;
use crate::site::guard::{id, id_at};

/// Address that the server listens on or connects to for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnAddress {
    /// A listening address.
    Listener(SocketAddr),
    /// Port of a store that does not speak HTTP. No upstream of a host record may have it,
    /// at any address.
    Port(u16),
    /// A server: a name or an address without brackets, and its port.
    Server(String, u16),
    /// Server of which only addresses that are not public count: others may share a public
    /// one.
    Private(String, u16),
    /// A Unix socket of either.
    Socket(PathBuf),
}

/// Own addresses, with those that names of servers resolve to.
#[derive(Debug, Default)]
pub struct OwnAddresses {
    /// Addresses of the configuration.
    listeners: Vec<SocketAddr>,
    servers: Vec<Server>,
    sockets: Vec<PathBuf>,
    /// Ports of stores, and of the nodes that they announce.
    ports: Mutex<BTreeSet<u16>>,
    /// Listening addresses with the ports that the system chose.
    bound: OnceLock<Vec<SocketAddr>>,
    /// Number of times that addresses were added since the start. Release and Acquire:
    /// a reader of the number sees the addresses, too.
    version: AtomicU64,
}

#[derive(Debug)]
struct Server {
    host: String,
    port: u16,
    /// Public addresses don't count.
    is_private: bool,
    /// Addresses of the host; None until it was resolved once.
    resolved: Mutex<Option<Vec<Resolved>>>,
}

/// Unmapped address that a name led to, and when it did so last.
#[derive(Clone, Copy, Debug)]
struct Resolved {
    ip: IpAddr,
    seen: Instant,
}

impl OwnAddresses {
    /// Takes the addresses of the configuration.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = OwnAddress>) -> Self {
        let mut own = Self::default();
        for address in addresses {
            match address {
                OwnAddress::Listener(address) => own.listeners.push(address),
                OwnAddress::Port(port) => own.announce([port]),
                OwnAddress::Server(host, port) => own.servers.push(Server::new(host, port)),
                OwnAddress::Private(host, port) => own.servers.push(Server {
                    is_private: true,
                    ..Server::new(host, port)
                }),
                OwnAddress::Socket(path) => own.sockets.push(path),
            }
        }
        own
    }

    /// Adds the addresses that the listeners are bound to. Only the first call
    /// counts.
    pub fn bind(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let _ = self.bound.set(addresses.into_iter().collect());
        self.version.fetch_add(1, Ordering::Release);
    }

    /// Adds ports of nodes that a store announces.
    pub fn announce(&self, ports: impl IntoIterator<Item = u16>) {
        let mut known = lock(&self.ports);
        let before = known.len();
        known.extend(ports);
        if known.len() > before {
            self.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Returns how often addresses were added. Others than before are refused only
    /// then.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Resolves the names of servers, and again every 60 s. A server that was
    /// never resolved has any address: its port alone refuses an upstream.
    pub async fn keep_resolved(&self) {
        loop {
            for server in &self.servers {
                if server.resolve().await {
                    self.version.fetch_add(1, Ordering::Release);
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Returns whether an unmapped address is an own one. That of a name without an answer
    /// so far is one if `unresolved`. A listener on `[::]` counts for IPv4 as well: the
    /// admin listener accepts both there.
    pub(super) fn contain(&self, ip: IpAddr, port: u16, unresolved: bool) -> bool {
        let is_at = |server: &Server| server.is_at(ip, port, unresolved);
        let bound = self.bound.get().into_iter().flatten();
        let is_listener = |own: &SocketAddr| {
            let at = unmapped(own.ip());
            let is_any = at.is_unspecified() && (at.is_ipv6() || ip.is_ipv4());
            own.port() == port && (at == ip || is_any && is_local(ip))
        };
        self.listeners.iter().chain(bound).any(is_listener)
            || self.servers.iter().any(is_at)
            || lock(&self.ports).contains(&port)
    }

    /// Compares a socket's path with those of own sockets.
    pub(super) fn is_socket(&self, path: &Path) -> bool {
        self.sockets.iter().any(|own| own == path)
    }

    /// Compares device and inode with those of own sockets. Blocks.
    pub(crate) fn is_open_socket(&self, open: &Metadata) -> bool {
        self.sockets.iter().any(|own| id_at(own) == Some(id(open)))
    }
}

impl Server {
    fn new(host: String, port: u16) -> Self {
        let ip = host.parse().ok().map(unmapped);
        let seen = Instant::now();
        let literal = ip.map(|ip| vec![Resolved { ip, seen }]);
        Self {
            host,
            port,
            is_private: false,
            resolved: Mutex::new(literal),
        }
    }

    /// Resolves the name, and returns whether it leads to further addresses. Keeps
    /// those before if the name can't be resolved.
    async fn resolve(&self) -> bool {
        if self.host.parse::<IpAddr>().is_ok() {
            return false;
        }
        let found = timeout(LOOKUP, lookup_host((self.host.as_str(), self.port))).await;
        let Ok(Ok(found)) = found else {
            return false;
        };
        self.learn(found.map(|address| unmapped(address.ip())), Instant::now())
    }

    /// Adds addresses to those that the name led to within [`KEPT`]: name servers
    /// answer with some of many, others each time. Returns whether any is new.
    fn learn(&self, found: impl Iterator<Item = IpAddr>, now: Instant) -> bool {
        let mut resolved = lock(&self.resolved);
        let known = resolved.get_or_insert_default();
        let mut is_new = false;
        for ip in found.take(MOST) {
            match known.iter_mut().find(|known| known.ip == ip) {
                Some(known) => known.seen = now,
                None => {
                    known.push(Resolved { ip, seen: now });
                    is_new = true;
                }
            }
        }
        known.retain(|known| now.duration_since(known.seen) <= KEPT);
        known.sort_by_key(|known| Reverse(known.seen));
        known.truncate(MOST);
        is_new
    }

    /// Returns whether the server may have an address. One on this machine has
    /// all of the machine's. One that was never resolved has any if `unresolved`.
    fn is_at(&self, ip: IpAddr, port: u16, unresolved: bool) -> bool {
        if port != self.port || self.is_private && is_public(ip) {
            return false;
        }
        let resolved = lock(&self.resolved);
        let Some(resolved) = &*resolved else {
            return unresolved && !self.is_private;
        };
        let mut ips = resolved.iter().map(|known| known.ip);
        ips.clone().any(|own| own == ip) || (ips.any(is_local) && is_local(ip))
    }
}

/// Returns whether an unmapped address is none of a private network.
fn is_public(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !(ip.is_private() || ip.is_loopback() || ip.is_link_local()),
        IpAddr::V6(ip) => !(ip.is_unique_local() || ip.is_loopback() || ip.is_unicast_link_local()),
    }
}

/// Returns whether an address is one of this machine's: only those can be
/// bound. Asks the kernel, which does not wait for anything.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Time after which names of servers are resolved again.
const AGAIN: Duration = Duration::from_secs(60);
/// Longest wait for a resolver.
const LOOKUP: Duration = Duration::from_secs(10);
/// How long an address counts that a name led to.
const KEPT: Duration = Duration::from_secs(3600);
/// Addresses of one name.
const MOST: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    fn learn(server: &Server, lasts: &[u8], now: Instant) -> bool {
        let ips = lasts.iter().map(|last| IpAddr::from([192, 0, 2, *last]));
        server.learn(ips, now)
    }

    #[test]
    fn names_with_turning_addresses_add_each_once() {
        let server = Server::new("db.example".into(), 5432);
        let (now, is_at) = (Instant::now(), |last| {
            server.is_at([192, 0, 2, last].into(), 5432, true)
        });
        assert!(is_at(9), "never resolved");
        assert!(learn(&server, &[1, 2], now));
        assert!(!is_at(9));
        assert!(!learn(&server, &[2, 1], now));
        assert!(learn(&server, &[2, 3], now + AGAIN));
        for turn in 0..50 {
            let lasts = [1 + turn % 3, 1 + (turn + 1) % 3];
            assert!(!learn(&server, &lasts, now + AGAIN * (2 + u32::from(turn))));
        }
        assert!(is_at(1) && is_at(2) && is_at(3));
        // An address that the name has left counts for an hour.
        let later = now + AGAIN * 51 + KEPT + AGAIN;
        assert!(!learn(&server, &[3], now + AGAIN * 52));
        assert!(is_at(1));
        assert!(!learn(&server, &[3], later));
        assert!(is_at(3) && !is_at(1) && !is_at(2));
    }

    #[test]
    fn ports_that_are_announced_count_at_any_address() {
        let own = OwnAddresses::new([OwnAddress::Port(5432)]);
        let ip = |last: u8| IpAddr::from([10, 0, 0, last]);
        assert!(own.contain(ip(1), 5432, true) && !own.contain(ip(1), 6379, true));
        let version = own.version();
        own.announce([6379, 5432]);
        assert!(own.contain(ip(1), 6379, true) && own.contain(ip(2), 6379, false));
        assert_eq!(own.version(), version + 1);
        own.announce([6379]);
        assert_eq!(own.version(), version + 1);
    }

    #[test]
    fn a_private_address_alone_is_refused_where_others_share_public_ones() {
        let host = |host: &str| OwnAddress::Private(host.into(), 443);
        let own = OwnAddresses::new([host("10.0.0.1"), host("192.0.2.1"), host("ca.example")]);
        assert!(own.contain([10, 0, 0, 1].into(), 443, true));
        assert!(!own.contain([192, 0, 2, 1].into(), 443, true));
        // A name that was never resolved refuses nothing.
        assert!(!own.contain([10, 0, 0, 2].into(), 443, true));
        learn(&own.servers[2], &[7], Instant::now());
        assert!(!own.contain([192, 0, 2, 7].into(), 443, true));
        own.servers[2].learn([IpAddr::from([10, 0, 0, 7])].into_iter(), Instant::now());
        assert!(own.contain([10, 0, 0, 7].into(), 443, true));
    }

    #[test]
    fn addresses_of_a_name_are_bounded() {
        let server = Server::new("db.example".into(), 5432);
        let now = Instant::now();
        for third in 0..4 {
            let ips = (0..=255).map(|last| IpAddr::from([192, 0, third, last]));
            assert!(server.learn(ips, now + AGAIN * u32::from(third)));
        }
        let known = server.resolved.lock().unwrap();
        assert_eq!(known.as_ref().unwrap().len(), MOST);
        drop(known);
        assert!(server.is_at([192, 0, 3, 9].into(), 5432, true));
    }
}
