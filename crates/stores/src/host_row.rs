//! Columns of a host record that may hold what this version can't read: another program
//! or a later version wrote them.

use std::sync::Arc;

use sekisho_certs::record::{Tenant, TlsPolicy};

/// Tenant and policy of a record.
pub(crate) struct Owned {
    pub(crate) tenant: Tenant,
    pub(crate) tls: TlsPolicy,
    /// Parts that can't be read.
    pub(crate) unreadable: Option<Arc<str>>,
}

impl Owned {
    /// Reads the columns `tenant` and `tls`; none is a value that is no text.
    pub(crate) fn read(tenant: Option<&str>, tls: Option<&str>) -> Self {
        let tenant = match tenant {
            Some("") => Ok(Tenant::default()),
            Some(name) => Tenant::parse(name),
            None => Err("its tenant is no text".into()),
        };
        let tls = tls.and_then(TlsPolicy::parse);
        let tls = tls.ok_or_else(|| String::from("its TLS policy is not known"));
        let unreadable = tenant.as_ref().err().or(tls.as_ref().err());
        Self {
            unreadable: unreadable.map(|why| why.as_str().into()),
            tenant: tenant.unwrap_or_default(),
            tls: tls.unwrap_or_default(),
        }
    }
}
