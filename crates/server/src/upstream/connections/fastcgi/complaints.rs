//! Standard error of a script, for the log.

use std::sync::Arc;

use sekisho_certs::{HostName, Tenant};

use crate::connection::request::RequestContext;
use crate::upstream::parts::Upstreams;

/// What a script writes to standard error while it answers one request. Dropping it logs
/// the text.
pub(in crate::upstream) struct Complaints {
    upstreams: Arc<Upstreams>,
    host: HostName,
    tenant: Tenant,
    script: Box<str>,
    /// The first bytes.
    first: Vec<u8>,
    bytes: usize,
}

impl Complaints {
    /// Makes those of a request's script.
    pub(in crate::upstream) fn of(
        context: &RequestContext<'_>,
        upstreams: &Arc<Upstreams>,
        script: &str,
    ) -> Self {
        Self {
            upstreams: Arc::clone(upstreams),
            host: context.host.clone(),
            tenant: context.tenant.clone(),
            script: script.into(),
            first: Vec::new(),
            bytes: 0,
        }
    }

    /// Adds bytes. Returns false once they are too many.
    pub(super) fn add(&mut self, bytes: &[u8]) -> bool {
        let room = LOGGED.saturating_sub(self.first.len());
        self.first
            .extend_from_slice(&bytes[..room.min(bytes.len())]);
        self.bytes += bytes.len();
        self.bytes <= MOST
    }
}

impl Drop for Complaints {
    fn drop(&mut self) {
        if self.bytes > 0 {
            let text = String::from_utf8_lossy(&self.first);
            let whose = (self.host.as_str(), &self.tenant);
            let limits = &self.upstreams.hosts.log_limits;
            limits.script_complained(whose, &self.script, text.trim_end());
        }
    }
}

/// Bytes of a line in the log.
const LOGGED: usize = 1 << 10;
/// Bytes of one request. An application that logs each query writes less.
const MOST: usize = 1 << 20;
