//! Addresses of the server itself and of its stores, which no upstream of a
//! host record may have.

use std::fs::{self, Metadata};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{OnceLock, PoisonError, RwLock};
use std::time::Duration;

use tokio::net::lookup_host;
use tokio::time::{sleep, timeout};

use super::target::unmapped;

/// Address that the server listens on or connects to for itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OwnAddress {
    /// A listening address.
    Listener(SocketAddr),
    /// A store: a name or an address without brackets, and its port.
    Store(String, u16),
    /// A Unix socket of either.
    Socket(PathBuf),
}

/// Own addresses, with those that names of stores resolve to.
#[derive(Debug, Default)]
pub struct OwnAddresses {
    /// Addresses of the configuration.
    listeners: Vec<SocketAddr>,
    stores: Vec<Store>,
    sockets: Vec<PathBuf>,
    /// Listening addresses with the ports that the system chose.
    bound: OnceLock<Vec<SocketAddr>>,
    /// Number of changes since the start. Release and Acquire: who sees a number sees
    /// the addresses, too.
    edition: AtomicU64,
}

#[derive(Debug)]
struct Store {
    host: String,
    port: u16,
    /// Unmapped addresses of the host; None until it was resolved once.
    resolved: RwLock<Option<Vec<IpAddr>>>,
}

impl OwnAddresses {
    /// Takes the addresses of the configuration.
    #[must_use]
    pub fn new(addresses: impl IntoIterator<Item = OwnAddress>) -> Self {
        let mut own = Self::default();
        for address in addresses {
            match address {
                OwnAddress::Listener(address) => own.listeners.push(address),
                OwnAddress::Store(host, port) => own.stores.push(Store::new(host, port)),
                OwnAddress::Socket(path) => own.sockets.push(path),
            }
        }
        own
    }

    /// Adds the addresses that the listeners are bound to. Only the first call
    /// counts.
    pub fn bind(&self, addresses: impl IntoIterator<Item = SocketAddr>) {
        let _ = self.bound.set(addresses.into_iter().collect());
        self.edition.fetch_add(1, Ordering::Release);
    }

    /// Returns how often the addresses have changed.
    pub(crate) fn edition(&self) -> u64 {
        self.edition.load(Ordering::Acquire)
    }

    /// Resolves the names of stores, and again every 60 s. A store that was
    /// never resolved has any address: its port alone refuses an upstream.
    pub async fn keep_resolved(&self) {
        while self.stores.iter().any(|store| !store.is_literal()) {
            for store in &self.stores {
                if store.resolve().await {
                    self.edition.fetch_add(1, Ordering::Release);
                }
            }
            sleep(AGAIN).await;
        }
    }

    /// Returns whether an unmapped address is an own one. A listener on `[::]` counts
    /// for IPv4 as well: the admin listener accepts both there.
    pub(super) fn contain(&self, ip: IpAddr, port: u16) -> bool {
        let bound = self.bound.get().into_iter().flatten();
        let is_listener = |own: &SocketAddr| {
            let at = unmapped(own.ip());
            let is_any = at.is_unspecified() && (at.is_ipv6() || ip.is_ipv4());
            own.port() == port && (at == ip || is_any && is_local(ip))
        };
        self.listeners.iter().chain(bound).any(is_listener)
            || self.stores.iter().any(|store| store.is_at(ip, port))
    }

    /// Compares a socket's path with those of own sockets.
    pub(super) fn is_socket(&self, path: &Path) -> bool {
        self.sockets.iter().any(|own| own == path)
    }

    /// Compares device and inode with those of own sockets. Blocks.
    pub(crate) fn is_open_socket(&self, open: &Metadata) -> bool {
        let is_it = |own: Metadata| (own.dev(), own.ino()) == (open.dev(), open.ino());
        self.sockets
            .iter()
            .any(|own| fs::metadata(own).is_ok_and(is_it))
    }
}

impl Store {
    fn new(host: String, port: u16) -> Self {
        let literal = host.parse().ok().map(|ip| vec![unmapped(ip)]);
        Self {
            host,
            port,
            resolved: RwLock::new(literal),
        }
    }

    fn is_literal(&self) -> bool {
        self.host.parse::<IpAddr>().is_ok()
    }

    /// Resolves the name, and returns whether its addresses are others than before.
    /// Keeps the last ones if the name can't be resolved.
    async fn resolve(&self) -> bool {
        if self.is_literal() {
            return false;
        }
        let found = timeout(LOOKUP, lookup_host((self.host.as_str(), self.port))).await;
        let Ok(Ok(found)) = found else {
            return false;
        };
        let mut found: Vec<_> = found.map(|address| unmapped(address.ip())).collect();
        // Resolvers turn the order with each answer.
        found.sort_unstable();
        self.learn(found)
    }

    fn learn(&self, found: Vec<IpAddr>) -> bool {
        let mut resolved = self
            .resolved
            .write()
            .unwrap_or_else(PoisonError::into_inner);
        let found = Some(found);
        let is_new = *resolved != found;
        *resolved = found;
        is_new
    }

    /// Returns whether the store may have an address. One on this machine has
    /// all of the machine's.
    fn is_at(&self, ip: IpAddr, port: u16) -> bool {
        if port != self.port {
            return false;
        }
        let resolved = self.resolved.read().unwrap_or_else(PoisonError::into_inner);
        let Some(resolved) = &*resolved else {
            return true;
        };
        resolved.contains(&ip) || (resolved.iter().copied().any(is_local) && is_local(ip))
    }
}

/// Returns whether an address is one of this machine's: only those can be
/// bound. Asks the kernel, which does not wait for anything.
fn is_local(ip: IpAddr) -> bool {
    ip.is_loopback() || UdpSocket::bind((ip, 0)).is_ok()
}

/// Time after which names of stores are resolved again.
const AGAIN: Duration = Duration::from_secs(60);
/// Longest wait for a resolver.
const LOOKUP: Duration = Duration::from_secs(10);
