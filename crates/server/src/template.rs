//! Text with a place for the host's name.

use std::borrow::Cow;
use std::sync::Arc;

use sekisho_certs::HostName;

/// Text in which `{host}` stands for a parsed name; no other braces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    text: Arc<str>,
    has_host: bool,
}

impl Template {
    /// Checks the braces.
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

    /// The text as it was written.
    pub(crate) fn text(&self) -> &Arc<str> {
        &self.text
    }

    /// The name, if the text has a place for it: what tells two fills apart.
    pub(crate) fn variable<'a>(&self, host: &'a HostName) -> &'a str {
        if self.has_host { host.as_str() } else { "" }
    }

    /// The text for this name. A name holds no separator of a path or a URL,
    /// so it stays where it is put.
    pub(crate) fn fill(&self, host: &str) -> Cow<'_, str> {
        if self.has_host {
            Cow::Owned(self.text.replace(HOST, host))
        } else {
            Cow::Borrowed(&self.text)
        }
    }

    /// Bytes on the heap.
    pub(crate) fn weight(&self) -> usize {
        self.text.len() + 2 * size_of::<usize>()
    }
}

pub(crate) const HOST: &str = "{host}";
