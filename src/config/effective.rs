//! Effective values of the whole configuration, each with its origin.

mod default;
mod hide;
mod notation;
mod shape;
mod walk;

use serde::Serialize;
use serde_json::Value;
use toml::Spanned;
use toml::de::DeTable;

use super::Config;
use super::raw::RawConfig;
use walk::Walk;

/// Section of the configuration, or a table below one.
#[derive(Debug)]
pub(crate) struct Section {
    /// Path of the section, such as `acme.ca.internal` or `site.paths[0]`.
    pub(crate) path: String,
    /// Header as TOML has it, with its brackets.
    pub(crate) header: String,
    /// False if the file has no such section, which then has no effect.
    pub(crate) is_set: bool,
    /// Keys in the order of the documentation.
    pub(crate) entries: Vec<Entry>,
}

/// Key with its effective value.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Key below its section, as TOML has it.
    pub(crate) key: String,
    /// Value; none if the key is not set and has no default.
    pub(crate) value: Option<Value>,
    /// Origin of the value.
    pub(crate) origin: Origin,
    /// True if the key must not be written beside the others: what is built in says the
    /// value.
    pub(crate) is_built_in: bool,
}

/// Origin of a value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Origin {
    /// The default, also of a key that has no value.
    Default,
    /// Line of the file, from 1 on.
    #[serde(untagged)]
    File {
        /// The file, absolute.
        file: String,
        /// The line of the key.
        line: usize,
    },
}

impl Config {
    /// Lists the effective values.
    pub(crate) fn effective(&self) -> Vec<Section> {
        let text = str::from_utf8(self.text.expose()).expect("it was read as text");
        let root = DeTable::parse(text).map(Spanned::into_inner);
        let root = root.expect("the configuration was read from this text");
        Walk::new(self, text).all(&shape::of::<RawConfig>(), &root)
    }
}

impl Entry {
    /// Writes the key and its value as a line of TOML.
    pub(crate) fn assignment(&self) -> String {
        let value = self.value.as_ref().map(notation::value);
        format!("{} = {}", self.key, value.as_deref().unwrap_or_default())
    }
}
