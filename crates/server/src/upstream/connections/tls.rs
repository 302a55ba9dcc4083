//! TLS towards upstream servers: one configuration for each identity.

use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, RootCertStore};
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;

use crate::site::{Protocol, UpstreamTls};
use crate::upstream::owned::{Owned, Owner};

/// TLS of one identity towards upstream servers of one name.
#[derive(Debug)]
pub(crate) struct TlsClient {
    /// Number that tells identities apart: connections of two are never shared.
    pub(crate) number: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// TLS configurations in use, bounded. Sites of one owner with equal settings share one.
pub(crate) struct TlsClients {
    clients: Owned<ClientKey, TlsClient>,
    /// Authorities that sites without their own trust; read when first needed.
    roots: OnceCell<Arc<RootCertStore>>,
    load: LoadRoots,
    /// Relaxed: only uniqueness counts.
    number: AtomicU64,
}

impl TlsClients {
    pub(crate) fn new(load: LoadRoots) -> Self {
        Self {
            clients: Owned::new(ESTIMATED, MOST, ClientKey::weight),
            roots: OnceCell::new(),
            load,
            number: AtomicU64::new(1),
        }
    }

    /// Returns an owner's configuration for a server called `host`. `certificate` is
    /// the client's, if the site names one.
    ///
    /// # Errors
    /// Says what is wrong with the site's settings.
    pub(crate) async fn client(
        &self,
        owner: Owner,
        tls: &Arc<UpstreamTls>,
        host: &str,
        protocol: Protocol,
        certificate: Option<&Arc<CertifiedKey>>,
    ) -> Result<Arc<TlsClient>, String> {
        let key = ClientKey {
            tls: Arc::clone(tls),
            name: tls.name.as_deref().unwrap_or(host).into(),
            protocol,
            certificate: certificate.cloned(),
        };
        if let Some(client) = self.clients.get(owner, &key) {
            return Ok(client);
        }
        let roots = match &key.tls.ca {
            Some(pem) => Arc::new(authorities(pem)?),
            None => Arc::clone(self.roots.get_or_try_init(|| self.load()).await?),
        };
        self.clients
            .get_or_make(owner, key, |key| self.make(key, roots))
    }

    async fn load(&self) -> Result<Arc<RootCertStore>, String> {
        let loaded = spawn_blocking(self.load).await;
        loaded.map_err(|error| error.to_string())?.map(Arc::new)
    }

    fn make(&self, key: &ClientKey, roots: Arc<RootCertStore>) -> Result<TlsClient, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match &key.certificate {
            Some(certificate) => {
                let certificate = SingleCertAndKey::from(Arc::clone(certificate));
                builder.with_client_cert_resolver(Arc::new(certificate))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = match key.protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
            Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
            Protocol::FastCgi => Vec::new(),
        };
        let name = ServerName::try_from(&*key.name)
            .map_err(|_| format!("{} is no server name", key.name))?;
        Ok(TlsClient {
            number: self.number.fetch_add(1, Ordering::Relaxed),
            config: Arc::new(config),
            name: name.to_owned(),
        })
    }
}

/// Reads the authorities that the system trusts. Blocks.
pub type LoadRoots = fn() -> Result<RootCertStore, String>;

/// Identity of a client and the server that it verifies.
#[derive(Clone)]
struct ClientKey {
    tls: Arc<UpstreamTls>,
    name: Box<str>,
    protocol: Protocol,
    certificate: Option<Arc<CertifiedKey>>,
}

impl ClientKey {
    /// Returns the bytes of a configuration, with the CAs that it has parsed.
    fn weight(&self) -> u64 {
        let ca = self.tls.ca.as_deref().map_or(0, str::len);
        (CONFIGURATION + self.name.len() + 2 * ca) as u64
    }
}

impl PartialEq for ClientKey {
    fn eq(&self, other: &Self) -> bool {
        // A certificate is one copy in memory, which the key keeps.
        let certificate = |key: &Self| key.certificate.as_ref().map(Arc::as_ptr);
        self.name == other.name
            && self.protocol == other.protocol
            && certificate(self) == certificate(other)
            && (Arc::ptr_eq(&self.tls, &other.tls) || self.tls == other.tls)
    }
}

impl Eq for ClientKey {}

impl Hash for ClientKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.name, self.protocol, &self.tls).hash(state);
        self.certificate.as_ref().map(Arc::as_ptr).hash(state);
    }
}

/// Reads the authorities that a site trusts.
fn authorities(pem: &str) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
        let certificate = certificate.map_err(|error| error.to_string())?;
        roots.add(certificate).map_err(|error| error.to_string())?;
    }
    Ok(roots)
}

/// Bytes of configurations in memory: 16,000 without CAs of their own, an owner 1,000.
const MOST: u64 = 64 << 20;
/// Bytes of one, and its sessions.
const CONFIGURATION: usize = 4096;
/// Configurations that there is room for at the start.
const ESTIMATED: usize = 1024;
