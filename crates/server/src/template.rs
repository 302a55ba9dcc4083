//! Text with the placeholder `{host}`.

use std::borrow::Cow;
use std::sync::Arc;

use sekisho_certs::HostName;

/// Text in which `{host}` stands for the host name; it has no other braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    text: Arc<str>,
    has_host: bool,
}

impl Template {
    /// Parses a template. Braces other than `{host}` are an error.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let rest = text.replace(HOST, "");
        if rest.contains(['{', '}']) {
            return Err(format!(
                "{text:?} has braces other than {HOST}, the only placeholder"
            ));
        }
        Ok(Self {
            text: text.into(),
            has_host: rest.len() != text.len(),
        })
    }

    /// Returns the text as it was written.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
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
        self.text.len() + 2 * size_of::<usize>()
    }
}

pub(crate) const HOST: &str = "{host}";
