//! Routes requests over plain HTTP.

use sekisho_certs::{HostName, clock};

use super::{BAD_HOST, Known, MISDIRECTED, Routes, refusal};
use crate::connection::request::{Connection, Refused, Target};
use crate::site::PlainHttp;

impl Routes {
    /// Finds the host that a request over plain HTTP asks for, which `host` names, by
    /// [`Hosts::ask_any`](crate::lookup::ask::Hosts::ask_any). A read is charged to the
    /// client's prefix. Whether the host is served over plain HTTP is not asked here. A host
    /// that is served so until it has a certificate gets one ordered, as by a visit over TLS,
    /// unless the connection is leaving.
    ///
    /// # Errors
    /// 400 for what is no host name. Else the refusal says how the lookup ended.
    pub(super) async fn route_plain(
        &self,
        connection: &Connection,
        host: &str,
    ) -> Result<Target, Refused> {
        let name = HostName::parse(host).map_err(|_| BAD_HOST)?;
        let hosts = &self.routing.hosts;
        let deadline = clock::monotonic() + hosts.lookup_limit;
        let asked = hosts.ask_any(&name, connection.prefix, deadline).await;
        let found = asked.map_err(|unfound| refusal(&unfound, MISDIRECTED))?;
        let http = found.served.value().site().http();
        let is_wanted = http == PlainHttp::UntilCertificate && !found.served.is_certified();
        // A process that is replaced promises to begin no orders after its last handshake.
        if is_wanted && !connection.drain.is_leaving() {
            hosts.obtain_beside(&name, connection.prefix);
        }
        let new = Known {
            name,
            found,
            choice: None,
        };
        Ok(self.note(connection, new))
    }
}
