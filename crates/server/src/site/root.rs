//! Root folder of a site.

use std::path::Path;

use super::template::{TENANT, Template};

/// Root with its `{host}` placeholder, and the part of it that the operator chose.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Root {
    pub(crate) template: Template,
    /// The part that the operator chose.
    pub(crate) part: OperatorsPart,
}

/// Leading part of a root that the operator chose. Links in it are followed wherever they
/// lead. The folders below belong to tenants, who may put links in their place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum OperatorsPart {
    /// The root itself: it stands in `[site]`, without a placeholder.
    Whole,
    /// The first components of a root in `[site]`, up to and with the first that holds a
    /// placeholder.
    Components(u16),
    /// The entry of `[sites] allow` that holds the root of a host record, up to and with
    /// the component that holds `{tenant}`.
    Allowed,
}

impl Root {
    /// Makes the root of `[site]`, which the operator wrote.
    pub(crate) fn of_operator(template: Template) -> Self {
        let components = Path::new(&*template.text).components();
        let mut names = components.map(|component| component.as_os_str().to_string_lossy());
        let part = match names.position(|name| name.contains('{')) {
            None => OperatorsPart::Whole,
            // A path of more components is too long to be opened.
            Some(at) => OperatorsPart::Components(u16::try_from(at + 1).unwrap_or(u16::MAX)),
        };
        Self { template, part }
    }

    /// Makes the root of a host record, which `[sites] allow` bounds.
    pub(crate) fn of_record(template: Template) -> Self {
        Self {
            template,
            part: OperatorsPart::Allowed,
        }
    }

    /// Returns whether `{tenant}` stands in the root.
    pub(super) fn has_tenant(&self) -> bool {
        self.template.text.contains(TENANT)
    }

    /// Returns whether `[sites] allow` bounds the root.
    pub(crate) fn is_bound(&self) -> bool {
        self.part == OperatorsPart::Allowed
    }
}
