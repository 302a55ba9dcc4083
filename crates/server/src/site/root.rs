//! The folder that a site serves files from.

use std::borrow::Cow;
use std::sync::Arc;

use sekisho_certs::HostName;

use crate::template::Template;

/// A root with its place for the host's name, and whose word it is.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    template: Template,
    bound: bool,
}

impl Root {
    /// The root of `[site]`, which the operator wrote.
    pub(crate) fn of_operator(template: Template) -> Self {
        Self {
            template,
            bound: false,
        }
    }

    /// The root of a host record, which `[sites] allow` bounds.
    pub(crate) fn of_record(template: Template) -> Self {
        Self {
            template,
            bound: true,
        }
    }

    /// Tells whether `[sites] allow` bounds it.
    pub(crate) fn is_bound(&self) -> bool {
        self.bound
    }

    /// The text as it was written.
    pub(crate) fn text(&self) -> &Arc<str> {
        self.template.text()
    }

    /// The name, if the root depends on it.
    pub(crate) fn variable<'a>(&self, host: &'a HostName) -> &'a str {
        self.template.variable(host)
    }

    /// The folder for this name.
    pub(crate) fn fill(&self, host: &str) -> Cow<'_, str> {
        self.template.fill(host)
    }

    /// Bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        self.template.weight()
    }
}
