//! Virtual hosts: what a handshake and its requests need of a host record.
//!
//! Each read of a record builds one, before the changes since its beginning are looked
//! at. A read that a change overtook is thrown away with its virtual host.

mod bases;
mod made;
mod short_chains;
mod verified;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use sekisho_certs::{HostRecord, LoadedHost, Published, lock};

use crate::lookup::tickets::{Ring, Tickets};
use crate::site::{Guard, Site, SiteError};
pub(crate) use bases::base;
use bases::{Bases, WithClientCa};
pub use made::Made;
use verified::Verified;

/// Host record in the form that the server serves it.
#[derive(Debug)]
pub struct VirtualHost {
    config: Arc<ServerConfig>,
    /// The shared base, if clients are asked for a certificate.
    with_client_ca: Option<Arc<WithClientCa>>,
    site: Site,
    /// TLS configurations of this host as the default of a listening address;
    /// at most one per address in `[listen] https`.
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

    /// Returns whether a client with this chain, leaf first, may resume a session at
    /// `now`, seconds since the Unix epoch. Any client may if the host has no client CA.
    /// rustls takes the chain from the ticket unchecked: a certificate may have expired.
    pub(crate) fn accepts(&self, chain: Option<&[CertificateDer<'_>]>, now: i64) -> bool {
        let base = self.with_client_ca.as_ref();
        base.is_none_or(|base| base.accepts(chain.unwrap_or_default(), now))
    }

    /// Returns the TLS configuration for clients without a server name, who get
    /// this host as the default of address `local`. Its tickets are bound to
    /// that address: rustls can't tell such sessions apart by name.
    pub(crate) fn default_config(&self, host: &LoadedHost, local: SocketAddr) -> Arc<ServerConfig> {
        let mut defaults = lock(&self.defaults);
        if let Some((_, config)) = defaults.iter().find(|(address, _)| *address == local) {
            return Arc::clone(config);
        }
        let mut config = ServerConfig::clone(&self.config);
        config.ticketer = Arc::new(Tickets::new(&self.ring, &host.record, Some(local)));
        let config = Arc::new(config);
        defaults.push((local, Arc::clone(&config)));
        config
    }
}

/// Builder of [`VirtualHost`]s; [`sekisho_certs::Lookup`] calls it once per
/// read that finds a record.
#[derive(Debug)]
pub struct Publisher {
    bases: Bases,
    ring: Arc<Ring>,
    site: Site,
    guard: Arc<Guard>,
    /// Chains of a hook; none before the first.
    verified: OnceLock<Verified>,
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
            bases: Bases::new(),
            ring,
            site,
            guard,
            verified: OnceLock::new(),
        }
    }

    /// Builds the virtual host of a loaded record.
    ///
    /// # Errors
    /// The reason, if the record's site can't be parsed, or its client CA not used.
    pub fn publish(&self, host: &Arc<LoadedHost>) -> Result<Published<VirtualHost>, String> {
        let (site, site_weight) = self
            .site_of(&host.record)
            .map_err(|error| format!("the site of {}: {error}", host.record.pattern))?;
        let based = self.bases.config(&host.record.tls);
        let (mut config, with_client_ca) =
            based.map_err(|error| format!("{}: {error}", host.record.pattern))?;
        let base_weight = with_client_ca.as_ref().map_or(0, |base| base.weight());
        config.cert_resolver = Arc::new(Choice(Arc::clone(host)));
        config.ticketer = Arc::new(Tickets::new(&self.ring, &host.record, None));
        Ok(Published {
            value: VirtualHost {
                config: Arc::new(config),
                with_client_ca,
                site,
                defaults: Mutex::default(),
                ring: Arc::clone(&self.ring),
            },
            weight: WEIGHT + site_weight + base_weight,
        })
    }

    /// Returns the site that answers for a record, and the bytes that it adds to those of
    /// all hosts.
    fn site_of(&self, record: &HostRecord) -> Result<(Site, usize), SiteError> {
        let Some(stored) = record.site_in_effect() else {
            let site = self.site.of_tenant(&record.tenant)?;
            let weight = match site.is(&self.site) {
                true => 0,
                false => site.weight(),
            };
            return Ok((site, weight));
        };
        let site = match Site::parse(stored, &record.tenant) {
            Ok(site) if site.admit(&record.pattern, &record.tenant, &self.guard) => site,
            Ok(_) => Site::unavailable(),
            Err(error @ SiteError::Moved(_)) => {
                self.guard
                    .note_moved((&record.pattern, &record.tenant), &error);
                Site::unavailable()
            }
            Err(error) => return Err(error),
        };
        let weight = site.weight();
        Ok((site, weight))
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

/// Bytes of a virtual host without its site. `tests/cache_weight.rs` measures
/// them with the allocator's statistics.
const WEIGHT: usize = 460;
