//! Root folder of a site.

use std::borrow::Cow;
use std::sync::Arc;

use sekisho_certs::{HostName, Tenant};

use crate::template::Template;

/// Root with its `{host}` placeholder, and whether `[sites] allow` bounds it.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    template: Template,
    bound: bool,
}

impl Root {
    /// Makes the root of `[site]`, which the operator wrote.
    pub(crate) fn of_operator(template: Template) -> Self {
        Self {
            template,
            bound: false,
        }
    }

    /// Makes the root of a host record, which `[sites] allow` bounds.
    pub(crate) fn of_record(template: Template) -> Self {
        Self {
            template,
            bound: true,
        }
    }

    /// Returns whether `[sites] allow` bounds the root.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// Returns the text as it was written.
    pub(crate) fn text(&self) -> &Arc<str> {
        self.template.text()
    }

    /// Returns the host name if the root depends on it, else "".
    pub(crate) fn variable<'a>(&self, host: &'a HostName) -> &'a str {
        self.template.variable(host)
    }

    /// Returns the folder for this host name.
    pub(crate) fn fill(&self, host: &str) -> Cow<'_, str> {
        self.template.fill(host)
    }

    /// Replaces `{tenant}`. Returns none if the root has no such placeholder.
    ///
    /// # Errors
    /// The errors of [`Template::fill_tenant`].
    pub(crate) fn fill_tenant(&self, tenant: &Tenant) -> Result<Option<Self>, String> {
        let filled = self.template.fill_tenant(tenant)?;
        let bound = self.bound;
        Ok(filled.map(|template| Self { template, bound }))
    }

    /// Returns the bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        self.template.weight()
    }
}
