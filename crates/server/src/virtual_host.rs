//! Virtual hosts: what a handshake and its requests need of a host record.
//! Built by each read of the record, before the read is compared with the changes
//! since it began: a read that a change overtook is thrown away.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::server::{ClientHello, NoServerSessionStorage, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::version::{TLS12, TLS13};
use sekisho_certs::{LoadedHost, Published, TlsPolicy};

use crate::site::{Guard, Site};
use crate::tickets::{Binding, Ring, Tickets};

/// Host record in the form that the server serves it.
#[derive(Debug)]
pub struct VirtualHost {
    config: Arc<ServerConfig>,
    site: Site,
    /// TLS configurations of this host as the default of a listening address;
    /// at most one per address in `[server] https`.
    defaults: Mutex<Vec<(SocketAddr, Arc<ServerConfig>)>>,
    ring: Arc<Ring>,
}

impl VirtualHost {
    /// Returns the site that answers this host's requests.
    #[must_use]
    pub fn site(&self) -> &Site {
        &self.site
    }

    /// Returns the TLS configuration for clients that named the host.
    pub(crate) fn config(&self) -> &Arc<ServerConfig> {
        &self.config
    }

    /// Returns the TLS configuration for clients without a server name, who get
    /// this host as the default of address `local`. Its tickets are bound to
    /// that address: rustls can't tell such sessions apart by name.
    pub(crate) fn default_config(&self, host: &LoadedHost, local: SocketAddr) -> Arc<ServerConfig> {
        let mut defaults = self.defaults.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, config)) = defaults.iter().find(|(address, _)| *address == local) {
            return Arc::clone(config);
        }
        let mut config = ServerConfig::clone(&self.config);
        config.ticketer = Arc::new(Tickets::new(&self.ring, binding(host, Some(local))));
        let config = Arc::new(config);
        defaults.push((local, Arc::clone(&config)));
        config
    }
}

/// Builder of [`VirtualHost`]s; [`sekisho_certs::Lookup`] calls it once per
/// read that finds a record.
#[derive(Debug)]
pub struct Publisher {
    tls12: ServerConfig,
    tls13: ServerConfig,
    ring: Arc<Ring>,
    site: Site,
    guard: Arc<Guard>,
}

impl Publisher {
    /// Makes a publisher. Tickets come from `ring`, and `site` answers for
    /// hosts without a site. A host whose site `guard` refuses gets 503.
    ///
    /// # Panics
    /// If the cryptographic provider lacks TLS 1.2 or 1.3.
    #[must_use]
    pub fn new(ring: Arc<Ring>, site: Site, guard: Arc<Guard>) -> Self {
        Self {
            tls12: base(&[&TLS13, &TLS12]),
            tls13: base(&[&TLS13]),
            ring,
            site,
            guard,
        }
    }

    /// Builds the virtual host of a loaded record.
    ///
    /// # Errors
    /// The reason, if the record's site can't be parsed.
    pub fn publish(&self, host: &Arc<LoadedHost>) -> Result<Published<VirtualHost>, String> {
        let (site, site_weight) = match &host.record.site {
            None => (self.site.clone(), 0),
            Some(stored) => {
                let site = Site::parse(stored)
                    .map_err(|error| format!("the site of {}: {error}", host.record.pattern))?;
                let site = if site.admit(&host.record.pattern, &self.guard) {
                    site
                } else {
                    Site::unavailable()
                };
                let weight = site.weight();
                (site, weight)
            }
        };
        // A clone of a base configuration shares the session cache, 31 KB,
        // which a builder would allocate for each host.
        let mut config = match host.record.tls {
            TlsPolicy::Tls12 => self.tls12.clone(),
            TlsPolicy::Tls13 => self.tls13.clone(),
        };
        config.cert_resolver = Arc::new(Choice(Arc::clone(host)));
        config.ticketer = Arc::new(Tickets::new(&self.ring, binding(host, None)));
        Ok(Published {
            value: VirtualHost {
                config: Arc::new(config),
                site,
                defaults: Mutex::default(),
                ring: Arc::clone(&self.ring),
            },
            weight: WEIGHT + site_weight,
        })
    }
}

/// Resolver that chooses a credential by the client's signature schemes, which
/// rustls has reduced to those of the common cipher suites.
#[derive(Debug)]
struct Choice(Arc<LoadedHost>);

impl ResolvesServerCert for Choice {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        // If no credential fits, rustls fails on the first one with the right
        // alert, handshake_failure. Returning None would send access_denied.
        let chosen = self.0.choose(hello.signature_schemes());
        let chosen = chosen.or_else(|| self.0.credentials.first())?;
        Some(Arc::clone(chosen.certified()))
    }
}

/// Makes a TLS configuration without a certificate and a ticketer.
pub(crate) fn base(versions: &[&'static rustls::SupportedProtocolVersion]) -> ServerConfig {
    let mut config = ServerConfig::builder_with_provider(Arc::new(default_provider()))
        .with_protocol_versions(versions)
        .expect("the provider has suites of TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(NoCertificate));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = TICKETS;
    config.max_tls13_tickets = MAX_TICKETS;
    config
}

fn binding(host: &LoadedHost, local: Option<SocketAddr>) -> Binding {
    Binding::new(&host.record, local)
}

/// Resolver of a base configuration, which has no certificate.
#[derive(Debug)]
struct NoCertificate;

impl ResolvesServerCert for NoCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        None
    }
}

/// Tickets that a TLS 1.3 client gets without asking.
const TICKETS: usize = 2;

/// Most tickets that a client can ask for (RFC 9149).
const MAX_TICKETS: usize = 4;

/// Bytes of a virtual host without its site. `tests/cache_weight.rs` measures
/// them with the allocator's statistics.
const WEIGHT: usize = 460;
