//! Text with the placeholders `{host}` and `{tenant}`.

use std::borrow::Cow;
use std::sync::Arc;

use sekisho_certs::{HostName, Tenant};

use super::error::{Checked, Wrong};

/// Text in which `{host}` stands for the host name, and `{tenant}` for its
/// tenant; it has no other braces.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Template {
    /// The text as it was written.
    pub(crate) text: Arc<str>,
    has_host: bool,
}

impl Template {
    /// Parses a template. Braces other than these placeholders are an error.
    pub(crate) fn parse(text: &str, placeholders: &[&str]) -> Result<Self, String> {
        let mut rest = text.to_owned();
        for placeholder in placeholders {
            rest = rest.replace(placeholder, "");
        }
        if rest.contains(['{', '}']) {
            let known = placeholders.join(" and ");
            return Err(format!("{text:?} has braces other than {known}"));
        }
        Ok(Self::of(text))
    }

    fn of(text: &str) -> Self {
        Self {
            text: text.into(),
            has_host: text.contains(HOST),
        }
    }

    /// Replaces `{tenant}`, if it is there. The number of a path's components stays.
    ///
    /// # Errors
    /// If the tenant's name is not one plain segment of a path, and could lead
    /// out of its place.
    pub(crate) fn fill_tenant(&mut self, tenant: &Tenant) -> Checked<()> {
        let name = tenant.as_str();
        if self.text.contains(TENANT) {
            if !is_folder_name(name) {
                return Err(Wrong::new(format!(
                    "{TENANT} stands for {name:?} here, which is no folder's name of the \
                     characters A-Z a-z 0-9 _ . -"
                )));
            }
            *self = Self::of(&self.text.replace(TENANT, name));
        }
        Ok(())
    }

    /// Returns the host name if the text has the placeholder, else "". Two
    /// fills are equal if their variables are.
    pub(crate) fn variable<'a>(&self, host: &'a HostName) -> &'a str {
        if self.has_host { host.as_str() } else { "" }
    }

    /// Replaces the placeholder. A host name holds no separator of a path or
    /// URL, and hence can't leave its place.
    pub(crate) fn fill(&self, host: &str) -> Cow<'_, str> {
        if self.has_host {
            Cow::Owned(self.text.replace(HOST, host))
        } else {
            Cow::Borrowed(&self.text)
        }
    }

    /// Returns the bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        super::arc_bytes(self.text.len())
    }
}

/// Returns whether a tenant's name is one plain segment of a path.
pub(crate) fn is_folder_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-');
    !name.is_empty() && name != "." && name != ".." && name.bytes().all(is_plain)
}

pub(crate) const HOST: &str = "{host}";
pub(crate) const TENANT: &str = "{tenant}";
