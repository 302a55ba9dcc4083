//! TLS towards upstream servers: one configuration for each identity.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use quick_cache::sync::Cache;
use rustls::client::ResolvesClientCert;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, SignatureScheme};

use sekisho_certs::HostName;
use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use tokio::time::Instant;

use crate::site::{Protocol, UpstreamTls};

/// TLS of one identity towards upstream servers of one name.
#[derive(Debug)]
pub(crate) struct TlsClient {
    /// Number that tells identities apart: connections of two are never shared.
    pub(crate) number: u64,
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

/// TLS configurations in use, bounded. Sites with equal settings share one.
pub(crate) struct TlsClients {
    clients: Cache<ClientKey, Arc<TlsClient>>,
    /// Authorities that sites without their own trust; read when first needed.
    roots: OnceCell<Arc<RootCertStore>>,
    load: LoadRoots,
    /// Relaxed: only uniqueness counts.
    number: AtomicU64,
    /// Hosts of client certificates that were not there, until when that holds.
    absent: Cache<HostName, Instant>,
}

impl fmt::Debug for TlsClients {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TlsClients({})", self.clients.len())
    }
}

impl TlsClients {
    pub(crate) fn new(load: LoadRoots) -> Self {
        Self {
            clients: Cache::new(CAPACITY),
            roots: OnceCell::new(),
            load,
            number: AtomicU64::new(1),
            absent: Cache::new(CAPACITY),
        }
    }

    /// Returns whether a host of a client certificate was not there lately.
    pub(crate) fn is_absent(&self, name: &HostName) -> bool {
        let until = self.absent.get(name);
        until.is_some_and(|until| Instant::now() < until)
    }

    /// Remembers for 5 s that a host of a client certificate is not there. Else each
    /// request of its site would ask the store.
    pub(crate) fn note_absent(&self, name: &HostName) {
        self.absent.insert(name.clone(), Instant::now() + ABSENT);
    }

    /// Returns the configuration for a server called `host`. `certificate` is
    /// the client's, if the site names one.
    ///
    /// # Errors
    /// Says what is wrong with the site's settings.
    pub(crate) async fn client(
        &self,
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
        if let Some(client) = self.clients.get(&key) {
            return Ok(client);
        }
        let roots = match &key.tls.ca {
            Some(pem) => Arc::new(authorities(pem)?),
            None => Arc::clone(self.roots.get_or_try_init(|| self.load()).await?),
        };
        self.clients
            .get_or_insert_with(&key, || self.make(&key, roots))
    }

    async fn load(&self) -> Result<Arc<RootCertStore>, String> {
        let loaded = spawn_blocking(self.load).await;
        loaded.map_err(|error| error.to_string())?.map(Arc::new)
    }

    fn make(&self, key: &ClientKey, roots: Arc<RootCertStore>) -> Result<Arc<TlsClient>, String> {
        let builder = ClientConfig::builder_with_provider(Arc::new(default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let mut config = match &key.certificate {
            Some(certificate) => {
                builder.with_client_cert_resolver(Arc::new(Own(Arc::clone(certificate))))
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = match key.protocol {
            Protocol::Http1 => vec![b"http/1.1".to_vec()],
            Protocol::Http2 => vec![b"h2".to_vec()],
            Protocol::Negotiated => vec![b"h2".to_vec(), b"http/1.1".to_vec()],
        };
        let name = ServerName::try_from(&*key.name)
            .map_err(|_| format!("{} is no server name", key.name))?;
        Ok(Arc::new(TlsClient {
            number: self.number.fetch_add(1, Ordering::Relaxed),
            config: Arc::new(config),
            name: name.to_owned(),
        }))
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
        // Not the whole text of the CAs, for each request.
        let ca = self.tls.ca.as_deref().unwrap_or_default().as_bytes();
        let end = ca.len().saturating_sub(HASHED);
        (&self.name, self.protocol, ca.len(), &ca[end..]).hash(state);
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

/// Resolver of the client certificate of a site.
#[derive(Debug)]
struct Own(Arc<CertifiedKey>);

impl ResolvesClientCert for Own {
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        let signs = self.0.key.choose_scheme(schemes).is_some();
        signs.then(|| Arc::clone(&self.0))
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Configurations in memory, some 4 KB each, and their sessions.
const CAPACITY: usize = 1024;

/// How long an absent host of a client certificate is not looked for again.
const ABSENT: Duration = Duration::from_secs(5);

/// Bytes at the end of the CAs' text that are hashed.
const HASHED: usize = 64;
