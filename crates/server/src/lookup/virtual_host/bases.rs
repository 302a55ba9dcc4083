//! Base configurations: what all hosts of one TLS policy share.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, Weak};

use rustls::RootCertStore;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::crypto::aws_lc_rs::default_provider;
use rustls::pki_types::{CertificateDer, TrustAnchor, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, ResolvesServerCertUsingSni, WebPkiClientVerifier};
use rustls::version::{TLS12, TLS13};
use sekisho_certs::{ClientCa, TlsPolicy, TlsVersion, lock};

use super::short_chains::ShortChains;

/// Base configurations by policy. Those with a client CA live as long as a host
/// uses them: the cache of hosts bounds them.
#[derive(Debug)]
pub(super) struct Bases {
    tls12: ServerConfig,
    tls13: ServerConfig,
    with_client_ca: Arc<Mutex<ByPolicy>>,
}

type ByPolicy = HashMap<Key, Weak<WithClientCa>, foldhash::fast::RandomState>;
/// Version, hash of the client CA, and whether certificates are optional.
type Key = (TlsVersion, [u8; 32], bool);

impl Bases {
    pub(super) fn new() -> Self {
        Self {
            tls12: base(TlsVersion::Tls12, None),
            tls13: base(TlsVersion::Tls13, None),
            with_client_ca: Arc::default(),
        }
    }

    /// Returns a configuration of this policy, and its base if that has a client CA.
    /// A clone shares provider and verifier; a builder would allocate a session cache
    /// of 31 KB for each host, and drop it again.
    ///
    /// # Errors
    /// The reason why no client can be verified by the client CA.
    pub(super) fn config(
        &self,
        policy: &TlsPolicy,
    ) -> Result<(ServerConfig, Option<Arc<WithClientCa>>), String> {
        let Some(ca) = &policy.client_ca else {
            let base = match policy.min {
                TlsVersion::Tls12 => &self.tls12,
                TlsVersion::Tls13 => &self.tls13,
            };
            return Ok((base.clone(), None));
        };
        let key = (policy.min, *ca.hash(), policy.client_optional);
        let base = self.with_client_ca(key, ca)?;
        Ok((base.config.clone(), Some(base)))
    }

    fn with_client_ca(&self, key: Key, ca: &ClientCa) -> Result<Arc<WithClientCa>, String> {
        let known = lock(&self.with_client_ca).get(&key).and_then(Weak::upgrade);
        if let Some(base) = known {
            return Ok(base);
        }
        // The lock is not held while a base is built. The first of two stays.
        let fresh = Arc::new(WithClientCa::new(key, ca, &self.with_client_ca)?);
        let mut bases = lock(&self.with_client_ca);
        let first = bases.get(&key).and_then(Weak::upgrade);
        if first.is_none() {
            bases.insert(key, Arc::downgrade(&fresh));
        }
        // Dropping `fresh` takes the lock.
        drop(bases);
        Ok(first.unwrap_or(fresh))
    }
}

/// Base configuration with a client CA.
#[derive(Debug)]
pub(crate) struct WithClientCa {
    config: ServerConfig,
    verifier: Arc<dyn ClientCertVerifier>,
    /// Bytes that the certificates take.
    anchors: usize,
    key: Key,
    bases: Weak<Mutex<ByPolicy>>,
}

impl WithClientCa {
    fn new(key: Key, ca: &ClientCa, bases: &Arc<Mutex<ByPolicy>>) -> Result<Self, String> {
        let mut roots = RootCertStore::empty();
        for certificate in ca.certificates() {
            let added = roots.add(certificate);
            added.map_err(|error| format!("its client CA can't be used: {error}"))?;
        }
        let anchors = roots.roots.iter().map(weight).sum();
        let mut builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider());
        if key.2 {
            builder = builder.allow_unauthenticated();
        }
        let verifier = builder
            .build()
            .map_err(|error| format!("its client CA can't be used: {error}"))?;
        let verifier: Arc<dyn ClientCertVerifier> = Arc::new(ShortChains(verifier));
        Ok(Self {
            config: base(key.0, Some(&verifier)),
            verifier,
            anchors,
            key,
            bases: Arc::downgrade(bases),
        })
    }

    /// Returns the bytes of memory that the base takes, as the allocator counts. Each
    /// host is charged with all of them: which host leaves the cache last is not known.
    pub(super) fn weight(&self) -> usize {
        PER_BASE + self.anchors
    }

    /// Returns whether the client CA verifies this chain, leaf first, at `now`, seconds
    /// since the Unix epoch. An empty chain passes if certificates are optional.
    pub(crate) fn accepts(&self, chain: &[CertificateDer<'_>], now: i64) -> bool {
        let Some((leaf, issuers)) = chain.split_first() else {
            return self.key.2;
        };
        let since = std::time::Duration::from_secs(now.try_into().unwrap_or(0));
        let now = UnixTime::since_unix_epoch(since);
        let verified = self.verifier.verify_client_cert(leaf, issuers, now);
        verified.is_ok()
    }
}

/// Removes the base from the map.
impl Drop for WithClientCa {
    fn drop(&mut self) {
        let Some(bases) = self.bases.upgrade() else {
            return;
        };
        let mut bases = lock(&bases);
        // Another base of the policy may have taken the place.
        let is_own = |there: &Weak<Self>| there.strong_count() == 0;
        if bases.get(&self.key).is_some_and(is_own) {
            bases.remove(&self.key);
        }
    }
}

/// Makes a TLS configuration from version `min` on, without a certificate and a ticketer.
/// With a verifier, clients are asked for a certificate.
pub(crate) fn base(
    min: TlsVersion,
    verifier: Option<&Arc<dyn ClientCertVerifier>>,
) -> ServerConfig {
    let versions: &[_] = match min {
        TlsVersion::Tls12 => &[&TLS13, &TLS12],
        TlsVersion::Tls13 => &[&TLS13],
    };
    let builder = ServerConfig::builder_with_provider(provider())
        .with_protocol_versions(versions)
        .expect("the provider has suites of TLS 1.2 and 1.3");
    let builder = match verifier {
        None => builder.with_no_client_auth(),
        Some(verifier) => builder.with_client_cert_verifier(Arc::clone(verifier)),
    };
    let mut config = builder.with_cert_resolver(Arc::new(ResolvesServerCertUsingSni::new()));
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.send_tls13_tickets = TICKETS;
    config.max_tls13_tickets = MAX_TICKETS;
    config
}

/// Returns the bytes of a certificate: its name is also sent to clients, as a hint
/// (RFC 8446, section 4.2.4).
fn weight(anchor: &TrustAnchor<'_>) -> usize {
    let constraints = anchor.name_constraints.as_ref().map_or(0, |der| der.len());
    let (name, key) = (anchor.subject.len(), anchor.subject_public_key_info.len());
    PER_ANCHOR + 2 * name + key + constraints
}

// Measured by `tests/cache_weight.rs` with the allocator's own statistics.
const PER_BASE: usize = 1160;
const PER_ANCHOR: usize = 150;

/// Tickets that a TLS 1.3 client gets without asking.
const TICKETS: usize = 2;

/// Most tickets that a client can ask for (RFC 9149).
const MAX_TICKETS: usize = 4;

/// Returns the provider of the handshakes with clients, which all configurations share.
fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: LazyLock<Arc<CryptoProvider>> = LazyLock::new(|| Arc::new(default_provider()));
    Arc::clone(&PROVIDER)
}

#[cfg(test)]
mod tests {
    use sekisho_testkit::TestCa;

    use super::*;

    fn policy(ca: &TestCa, min: TlsVersion) -> TlsPolicy {
        let ca = ClientCa::check(ca.root_pem().as_bytes()).unwrap();
        TlsPolicy {
            min,
            client_ca: Some(Arc::new(ca)),
            client_optional: false,
        }
    }

    #[test]
    fn hosts_of_one_policy_share_a_base_while_one_of_them_lives() {
        let bases = Bases::new();
        let base = |policy: &TlsPolicy| bases.config(policy).unwrap().1.unwrap();
        let (one, other) = (TestCa::new(), TestCa::new());
        let first = base(&policy(&one, TlsVersion::Tls12));
        let second = base(&policy(&one, TlsVersion::Tls12));
        assert!(Arc::ptr_eq(&first, &second));
        let newer = base(&policy(&one, TlsVersion::Tls13));
        let foreign = base(&policy(&other, TlsVersion::Tls12));
        let optional = base(&TlsPolicy {
            client_optional: true,
            ..policy(&one, TlsVersion::Tls12)
        });
        for different in [&newer, &foreign, &optional] {
            assert!(!Arc::ptr_eq(&first, different));
        }
        assert_eq!(lock(&bases.with_client_ca).len(), 4);
        drop(first);
        assert_eq!(lock(&bases.with_client_ca).len(), 4);
        drop((second, newer, foreign, optional));
        assert_eq!(lock(&bases.with_client_ca).len(), 0);
        assert!(bases.config(&TlsPolicy::default()).unwrap().1.is_none());
    }

    /// Other programs may write a store, without the checks of `host set`.
    #[test]
    fn a_client_ca_that_verifies_nobody_is_an_error() {
        let pem = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
        let policy = TlsPolicy {
            min: TlsVersion::Tls12,
            client_ca: Some(Arc::new(ClientCa::parse(pem).unwrap())),
            client_optional: false,
        };
        let error = Bases::new().config(&policy).unwrap_err();
        assert!(error.contains("client CA"), "{error}");
    }
}
