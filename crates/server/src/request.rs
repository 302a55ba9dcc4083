//! Context of one request: who asks, for which host, over which connection.

use std::net::IpAddr;

use std::sync::Arc;

use sekisho_certs::{HostName, HostPattern, Served, Tenant};

use crate::access_log::Entry;
use crate::client::Client;
use crate::files::Opener;
use crate::route::{ConnContext, Target};
use crate::virtual_host::VirtualHost;

/// Facts of a routed request, for all steps that answer it.
#[derive(Clone, Copy)]
pub(crate) struct RequestContext<'a> {
    /// Host that the request asks for.
    pub(crate) host: &'a HostName,
    /// Tenant of that host.
    pub(crate) tenant: &'a Tenant,
    /// Pattern of the host record: the host, or the wildcard above it.
    pub(crate) pattern: &'a HostPattern,
    /// The host as it was found.
    pub(crate) served: &'a Arc<Served<VirtualHost>>,
    pub(crate) connection: &'a ConnContext,
    /// Address of the client, for rates, logs and fields.
    pub(crate) client: IpAddr,
    /// Whether that is the client's own address, and not that of a proxy that hides it.
    pub(crate) is_client_known: bool,
    /// Entry of the access log; none without one.
    pub(crate) entry: Option<&'a Entry>,
}

impl<'a> RequestContext<'a> {
    pub(crate) fn new(
        connection: &'a ConnContext,
        target: &'a Target,
        client: Client,
        entry: Option<&'a Entry>,
    ) -> Self {
        let record = &target.served.host().record;
        Self {
            host: target.name(connection),
            tenant: &record.tenant,
            pattern: &record.pattern,
            served: &target.served,
            connection,
            client: client.address,
            is_client_known: client.is_known,
            entry,
        }
    }

    /// Returns the client that files are opened for.
    pub(crate) fn opener(&self) -> Opener<'a> {
        Opener {
            connection: self.connection.files(),
            prefix: self.client.into(),
        }
    }
}
