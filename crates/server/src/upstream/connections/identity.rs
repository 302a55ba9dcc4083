//! Identity of a site towards its servers: what it may connect to, and its TLS.

use std::sync::Arc;

use rustls::sign::CertifiedKey;
use sekisho_certs::{HostName, Outcome, Tenant};
use tokio::time::{Instant, timeout_at};

use super::tls::TlsClient;
use super::transport::Endpoint;
use crate::limits::budget::Prefix;
use crate::site::{Address, OpenSocket, Protocol, Upstream};
use crate::upstream::failure::{Failure, Own, Waited};
use crate::upstream::owned::Owner;
use crate::upstream::parts::Upstreams;

/// Site that connects to a server, for one of its hosts.
#[derive(Clone, Copy)]
pub(in crate::upstream) struct Caller<'a> {
    pub(in crate::upstream) upstreams: &'a Upstreams,
    pub(in crate::upstream) upstream: &'a Arc<Upstream>,
    pub(in crate::upstream) host: &'a HostName,
    pub(in crate::upstream) tenant: &'a Tenant,
    /// Owner of what is known of the servers.
    pub(in crate::upstream) owner: Owner,
    /// Client prefix that lookups are charged to.
    pub(in crate::upstream) prefix: Prefix,
}

impl Caller<'_> {
    /// Asks whether the site may connect to an address. Returns the socket that
    /// was judged, if it is one of the file system: that takes until `until` at most.
    pub(in crate::upstream) async fn judge(
        self,
        endpoint: &Endpoint,
        until: Instant,
    ) -> Result<Option<OpenSocket>, Failure> {
        let guard = &self.upstreams.guard;
        let refused = Failure::NoServer("[sites] allow does not allow its address");
        match endpoint {
            Endpoint::Tcp(address) => {
                let whose = (self.host.as_str(), self.tenant);
                let allowed = guard.check_address(self.upstream, whose, *address);
                allowed.then_some(None).ok_or(refused)
            }
            Endpoint::Unix(path) => {
                let (guard, path) = (Arc::clone(guard), Arc::clone(path));
                let (upstream, host) = (Arc::clone(self.upstream), self.host.clone());
                let tenant = self.tenant.clone();
                let open = move || guard.open_socket(&upstream, (host.as_str(), &tenant), &path);
                let sockets = &self.upstreams.sockets;
                let opened = sockets.open(self.tenant, until, open).await?;
                opened.map(Some).ok_or(refused)
            }
        }
    }

    /// Returns the TLS of the site's identity, until `until`. None for a plain upstream.
    pub(in crate::upstream) async fn tls(
        self,
        address: &Address,
        protocol: Protocol,
        until: Instant,
    ) -> Result<Option<Arc<TlsClient>>, Failure> {
        let Some(tls) = &self.upstream.options().tls else {
            return Ok(None);
        };
        let Address::Tcp { host, .. } = address else {
            return Err(Failure::Settings("TLS needs a TCP address".into()));
        };
        let client = async {
            let certified = match &tls.certificate_of {
                Some(name) => Some(self.certificate_of(name, until).await?),
                None => None,
            };
            let clients = &self.upstreams.tls;
            let client = clients.client(self.owner, tls, host, protocol, certified.as_ref());
            client.await.map_err(Failure::Settings)
        };
        let client = timeout_at(until, client).await;
        client.map_err(|_| Own::Late(Waited::Identity))?.map(Some)
    }

    /// Returns the certificate of a host of the same tenant. None is obtained for it.
    async fn certificate_of(
        self,
        name: &HostName,
        until: Instant,
    ) -> Result<Arc<CertifiedKey>, Failure> {
        let wrong = |what: &str| Err(Failure::Settings(format!("the host {name} {what}")));
        let hosts = &self.upstreams.hosts;
        let served = match hosts.ask_stored(name, self.prefix, until).await {
            Outcome::Found(served) => served,
            Outcome::Absent(_) => return wrong(ABSENT),
            Outcome::Failed(error) => {
                let why = format!("the host {name} could not be looked up: {error}");
                return Err(Failure::Lookup(why));
            }
        };
        let host = served.host();
        if host.record.tenant != *self.tenant {
            return wrong("of the client certificate belongs to another tenant");
        }
        match host.credentials.first() {
            Some(credential) => Ok(Arc::clone(credential.certified())),
            None => wrong(ABSENT),
        }
    }
}

const ABSENT: &str = "of the client certificate is not there, or has no certificate";
